"""Loopback phones for the tests of the room that runs jobs."""

from loopback_phones import listen, loopback

__all__ = ["listen", "loopback"]
