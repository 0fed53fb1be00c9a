"""The controller's program: manages a rack of phones and the jobs on it."""

__version__ = "0.1.0"
