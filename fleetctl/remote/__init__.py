"""fleetctl.remote."""
