"""Loopback phones for the tests of the room that connects."""

from loopback_phones import listen, loopback

__all__ = ["listen", "loopback"]
