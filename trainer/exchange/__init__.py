"""Gradient exchange: transport (MPI), reduce (ring), engine (the one communication thread)."""
