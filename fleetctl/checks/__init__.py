"""One registry of checks; validation, preflight and `fleetctl check` are subsets of it."""
