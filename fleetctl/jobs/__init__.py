"""fleetctl.jobs."""
