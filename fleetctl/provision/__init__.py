"""fleetctl.provision."""
