"""fleetctl.checks."""
