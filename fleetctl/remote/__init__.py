"""The only code that connects to a phone: asyncssh, one kept connection each."""

from fleetctl.remote.faults import Fault, PhoneError
from fleetctl.remote.fleet import Fleet, Result

__all__ = ["Fault", "Fleet", "PhoneError", "Result"]
