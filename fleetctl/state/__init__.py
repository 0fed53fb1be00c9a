"""fleetctl.state."""
