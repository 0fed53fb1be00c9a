"""Tests that need torch and mpirun: collected in the lab image only (see ../test_lab.py)."""

from importlib.util import find_spec

if find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
