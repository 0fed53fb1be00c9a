"""Failures that fleetctl can explain, and the exit codes that they end with.

Every room may import this module; it imports none of them.
"""

from __future__ import annotations

import errno
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """The one table of fleetctl's exit codes."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    SOME_PHONES_FAILED = 3
    NONE_REACHABLE = 4
    HELD = 5
    """Another run holds the phones."""
    PREFLIGHT_REFUSED = 6
    INTERRUPTED = 130


DISK_TROUBLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS})
"""What an OSError says about a disk of this controller: no phone is to blame."""


class FleetError(Exception):
    """A failure with a clear message: what happened, to which phone or file, what to do.

    The command line shows the message without a traceback and ends with `exit_code`; any other
    exception is a bug and shows one.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
