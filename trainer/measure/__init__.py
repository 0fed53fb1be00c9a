"""Measurements that `fleetctl bench` starts on phones; `python -m trainer.measure`."""
