"""fleetctl.cli."""
