"""fleetctl.rack."""
