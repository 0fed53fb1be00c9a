"""What a run of a playbook ends with. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fleetctl.errors import ExitCode

_BAD_OPTIONS = 5
"""What ansible-playbook ends with when it cannot read its own options."""


def exit_code(
    results: Mapping[str, str],
    phones: Collection[str],
    ansible_code: int | None,
    interrupted: bool,
) -> ExitCode:
    """From what became of each host. Ansible's own code counts only where it came to no host:
    it is 4 for one phone that is away as for all of them."""
    if interrupted:
        return ExitCode.INTERRUPTED
    bad = {host for host, result in results.items() if result in ("failed", "unreachable")}
    if not bad:
        if ansible_code:
            return ExitCode.BAD_INPUT if ansible_code == _BAD_OPTIONS else ExitCode.FAILED
        return ExitCode.DONE
    if not bad <= set(phones):
        return ExitCode.FAILED  # the controller or the services host: all phones lack it
    asked = {host for host in results if host in phones}
    if all(results[host] == "unreachable" for host in asked):
        return ExitCode.NONE_REACHABLE
    return ExitCode.SOME_PHONES_FAILED
