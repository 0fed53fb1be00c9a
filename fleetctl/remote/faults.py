"""Why a phone could not be reached or did not finish, each as one sentence with its cure."""

from __future__ import annotations

import errno
from enum import StrEnum

import asyncssh


class Fault(StrEnum):
    """The kinds that callers tell apart: `throttled` is not `down`, `changed` must stop a run."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    THROTTLED = "throttled"
    HOST_KEY_CHANGED = "host key changed"
    AUTH = "auth"
    TIMEOUT = "timeout"
    LOST = "connection lost"
    FAILED = "failed"


class PhoneError(Exception):
    """What happened to which phone and what to do about it."""

    def __init__(self, phone: str, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.phone = phone
        self.fault = fault

    @property
    def reached(self) -> bool | None:
        """Whether the phone answered; None if nobody can tell: no host key of it is known, or
        another answers. Throttling and refusing our key are answers too."""
        if self.fault is Fault.HOST_KEY_CHANGED:
            return None
        return self.fault in (Fault.THROTTLED, Fault.AUTH)


# sshd answers these instead of its version: PerSourcePenalties and MaxStartups.
THROTTLE_LINES = (b"Not allowed at this time", b"Exceeded MaxStartups", b"Too many connections")


def not_in_rack(phone: str) -> PhoneError:
    """A phone that an old run used and that the rack file no longer has."""
    message = f"{phone} is no longer in the rack file; nothing is known about it"
    return PhoneError(phone, Fault.UNREACHABLE, message)


def unreachable(phone: str, address: str, why: str) -> PhoneError:
    """The phone's address does not answer at all."""
    return PhoneError(
        phone,
        Fault.UNREACHABLE,
        f"{phone} ({address}) is unreachable: {why}; check its power, cable and DHCP lease",
    )


def throttled(phone: str, address: str) -> PhoneError:
    """The phone's sshd is up but penalises this source address for a while."""
    return PhoneError(
        phone,
        Fault.THROTTLED,
        f"{phone} ({address}) is throttled: its sshd says it does not allow this controller at "
        "this time; wait a minute, and run site.yml -t ssh so that the controller is exempt",
    )


def silent(phone: str, address: str, limit_seconds: float) -> PhoneError:
    """The kernel accepts the connection, but sshd says nothing: frozen or swamped."""
    return PhoneError(
        phone,
        Fault.TIMEOUT,
        f"{phone} ({address}) accepts connections but its sshd did not answer within "
        f"{limit_seconds:g} s; it hangs: restart the phone",
    )


def unfinished(phone: str, limit_seconds: float) -> PhoneError:
    """A command that was still running when its time was over."""
    return PhoneError(
        phone,
        Fault.TIMEOUT,
        f"{phone} did not finish the command within {limit_seconds:g} s; "
        "see what it is busy with, or restart it when it hangs",
    )


def lost(phone: str) -> PhoneError:
    """A connection that was up is gone: cable pulled, phone off or frozen."""
    return PhoneError(
        phone,
        Fault.LOST,
        f"{phone} stopped answering on a connection that was up; check its power and cable",
    )


def not_enrolled(phone: str, known_hosts: str) -> PhoneError:
    """No key of the phone is known, so nothing can be verified."""
    return PhoneError(
        phone,
        Fault.HOST_KEY_CHANGED,
        f"{phone} has no host key in {known_hosts}; enrol the phone first",
    )


def key_changed(phone: str, address: str) -> PhoneError:
    """Another than the enrolled phone answers, or the same with a new Termux."""
    return PhoneError(
        phone,
        Fault.HOST_KEY_CHANGED,
        f"the host key of {phone} ({address}) is not the one it was enrolled with; if Termux was "
        f"reinstalled, enrol it again (`fleetctl enroll --serial …`); if the phone was replaced, "
        f"`fleetctl enroll --replace {phone}`; else find out who answers there",
    )


def key_revoked(phone: str, address: str) -> PhoneError:
    """A phone answers that has left the rack, or whose place another one took."""
    return PhoneError(
        phone,
        Fault.HOST_KEY_CHANGED,
        f"{phone} ({address}) answers with a host key that was revoked: a phone that left the rack "
        "still hangs there; unplug it, or reinstall Termux on it and enrol it again",
    )


def refused(phone: str, address: str) -> PhoneError:
    """The phone is up, its sshd is not."""
    return PhoneError(
        phone,
        Fault.REFUSED,
        f"{phone} ({address}) refuses port 8022: Android is up but sshd is not; "
        "open Termux on the phone (after a reboot unlock it once)",
    )


def refused_key(phone: str, address: str) -> PhoneError:
    """The phone answers and does not take our key."""
    return PhoneError(
        phone,
        Fault.AUTH,
        f"{phone} ({address}) does not accept the operator's key; enrol it again or run "
        "site.yml -t controller,ssh",
    )


def failed(phone: str, address: str, reason: str) -> PhoneError:
    """Nothing that we have a better sentence for."""
    return PhoneError(
        phone,
        Fault.FAILED,
        f"the connection to {phone} ({address}) failed: {reason}; see its sshd's log",
    )


def classify(phone: str, address: str, error: BaseException) -> PhoneError:
    """The sentence for what asyncio or asyncssh raised while a connection was being made."""
    match error:
        case PhoneError():
            return error
        case TimeoutError():
            return unreachable(phone, address, "no answer in time")
        case ConnectionRefusedError():
            return refused(phone, address)
        case asyncssh.HostKeyNotVerifiable() if "revoked" in str(error):
            return key_revoked(phone, address)
        case asyncssh.HostKeyNotVerifiable():
            return key_changed(phone, address)
        case asyncssh.KeyExchangeFailed() if "host key" in str(error).lower():
            return key_changed(phone, address)
        case asyncssh.PermissionDenied():
            return refused_key(phone, address)
        case OSError() if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):
            return unreachable(phone, address, error.strerror or "no route")
        case asyncssh.ConnectionLost() | ConnectionError():
            return lost(phone)
        case _:
            return failed(phone, address, str(error) or type(error).__name__)
