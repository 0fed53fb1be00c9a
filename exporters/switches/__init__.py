"""What switches say about themselves by SNMP. Runs on the services host, not on phones."""
