"""Commands outside configuration mode: what each kind of switch takes, and what it does."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from standin.switches import printed
from standin.switches.device import Device, EosSession, shutdown_notice
from standin.switches.editor import Kind
from standin.switches.grammar import Pattern, patterns
from standin.switches.session import Answer, Question, Session
from standin.switches.show import eos_config

type Command = Callable[[Session, tuple[str, ...]], Answer]


def _show(what: Callable[[Device], Answer]) -> Command:
    return lambda session, _: what(session.device)


def _running(device: Device) -> Iterator[str]:
    return printed.configuration(device, device.running, "running")


def _startup(device: Device) -> Iterator[str]:
    return printed.configuration(device, device.startup, "startup")


# --- modes --------------------------------------------------------------------------------------


def _enable(session: Session, _: tuple[str, ...]) -> Answer:
    tries = 3

    def check(password: str) -> Answer:
        nonlocal tries
        tries -= 1
        if password == session.device.enable_password:
            session.privileged = True
        elif tries:
            session.question = Question("Password: ", check, is_secret=True)
        else:
            return ["% Bad secrets", ""]
        return None

    if not session.privileged:
        session.question = Question("Password: ", check, is_secret=True)
    return ()


def _disable(session: Session, _: tuple[str, ...]) -> Answer:
    session.privileged = False
    return ()


def _close(session: Session, _: tuple[str, ...]) -> Answer:
    session.closed = True
    return ()


def _length(session: Session, said: tuple[str, ...]) -> Iterator[str]:
    session.length = int(said[0])
    if session.device.kind == "eos":
        yield "Pagination disabled." if session.length == 0 else ""


def _width(session: Session, said: tuple[str, ...]) -> Iterator[str]:
    if session.device.kind == "eos":
        yield f"Width set to {said[0]} columns."


def _configure(session: Session, _: tuple[str, ...]) -> Iterator[str]:
    session.edit()
    if session.device.kind == "ios":
        yield "Enter configuration commands, one per line.  End with CNTL/Z."


# --- IOS: archive, revert, reload, save ---------------------------------------------------------


def _configure_revert(session: Session, said: tuple[str, ...]) -> Iterator[str]:
    device = session.device
    if not device.running.archive_path:
        yield "%Turn config archive on before using Rollback Confirmed Change"
        return
    if device.revert:
        yield "%Rollback Confirmed Change already pending"
        return
    device.arm(int(said[0]))
    yield "Rollback Confirmed Change: Backing up current running config to "
    yield f"{device.running.archive_path}-Mar--1-10-15-27-0"
    yield ""
    yield from _configure(session, ())


def _confirm(session: Session, _: tuple[str, ...]) -> Iterator[str]:
    if session.device.revert is None:
        yield "%No Rollback Confirmed Change pending"
    session.device.revert = None


def _revert_now(session: Session, _: tuple[str, ...]) -> Iterator[str]:
    device = session.device
    if device.revert is None:
        yield "%No Rollback Confirmed Change pending"
        return
    yield f"Rollback Confirmed Change: rolling to:{device.running.archive_path}-Mar--1-10-15-27-0"
    yield ""
    device.roll_back("asked")
    yield from ("Total number of passes: 1", "Rollback Done", "")


def _rollback_timer(device: Device) -> Iterator[str]:
    if device.revert is None:
        yield "%No Rollback Confirmed Change pending"
        return
    yield "Time configured(in UTC): 10:15:27 UTC Mon Mar 1 1993"
    yield "Timer type: absolute timer"
    yield f"Timer value: {device.revert[1]} min"
    yield "User: admin"


def _archive(device: Device) -> Iterator[str]:
    if not device.running.archive_path:
        yield " Archive feature not enabled"
        return
    yield "The maximum archive configurations allowed is 10."
    yield f"The next archive file will be named {device.running.archive_path}-<timestamp>-0"


def _reload(minutes: int) -> Command:
    def ask(session: Session, said: tuple[str, ...]) -> Answer:
        in_minutes = int(said[0]) if said else minutes
        if session.device.saved:
            return _ask_to_proceed(session, in_minutes)

        def save(word: str) -> Answer:
            if word.strip().lower() not in ("yes", "no", "y", "n"):
                session.question = Question(question.text, save)
                return ["% Please answer 'yes' or 'no'."]
            if word.strip().lower().startswith("y"):
                session.device.save()
            return _ask_to_proceed(session, in_minutes)

        question = Question("System configuration has been modified. Save? [yes/no]: ", save)
        session.question = question
        return [""]

    return ask


def _ask_to_proceed(session: Session, minutes: int) -> Iterator[str]:
    device = session.device

    def proceed(key: str) -> Answer:
        if key.strip().lower() not in ("", "y"):
            return [""]
        if minutes:
            device.schedule_reload(minutes)
            device.say_everywhere(shutdown_notice(f"SHUTDOWN in 0:{minutes:02}:00"))
        else:
            device.power_cycle("reload")
        return None

    session.question = Question("Proceed with reload? [confirm]", proceed, one_key=True)
    if minutes:
        yield f"Reload scheduled for 10:30:27 UTC Mon Mar 1 1993 (in {minutes} minutes) by admin"
        yield "Reload reason: Reload Command"


def _reload_cancel(session: Session, _: tuple[str, ...]) -> Iterator[str]:
    if session.device.reload_at is None:
        yield "No reload is scheduled."
        return
    session.device.reload_at = None
    session.device.say_everywhere(shutdown_notice("SHUTDOWN ABORTED"))


def _show_reload(device: Device) -> Iterator[str]:
    if device.reload_at is None:
        yield "No reload is scheduled."
    else:
        left = int(device.reload_at - device.clock())
        yield f"Reload scheduled in {left // 60} minutes and {left % 60} seconds by admin on vty0"
        yield "Reload reason: Reload Command"


def _save(session: Session, _: tuple[str, ...]) -> Answer:
    device = session.device

    def save(key: str = "") -> Iterator[str]:
        if key.strip().lower() not in ("", "y"):
            return
        device.save()
        if device.kind == "eos":
            yield "Copy completed successfully."
        else:
            yield from ("Building configuration...", "[OK]")

    if not device.knobs.asks_before_saving:
        return save()
    session.question = Question("Overwrite the previous NVRAM configuration?[confirm]", save, True)
    return [
        "Warning: Attempting to overwrite an NVRAM configuration previously written",
        "by a different version of the system image.",
    ]


def _copy_to_startup(session: Session, _: tuple[str, ...]) -> Answer:
    if session.device.kind == "eos":
        return _save(session, ())
    ask = "Destination filename [startup-config]? "
    session.question = Question(ask, lambda _: _save(session, ()))
    return ()


# --- EOS: sessions ------------------------------------------------------------------------------


def _open_session(session: Session, said: tuple[str, ...]) -> Iterator[str]:
    device = session.device
    name = said[0] if said else f"sess-{len(device.sessions) + 1}"
    found = device.sessions.get(name)
    if found and found.deadline is not None:
        yield f"% Cannot enter session {name} (pendingCommitTimer)"
        return
    if found is None:
        found = device.sessions[name] = EosSession(name, device.running.copy())
    session.edit(found)


def _candidate(session: Session) -> EosSession:
    if session.candidate is None:
        raise LookupError("the grammar lets this command through in a session only")
    return session.candidate


def _commit(session: Session, said: tuple[str, ...]) -> Iterator[str]:
    device, candidate = session.device, _candidate(session)
    waiting = device.waiting_session
    if waiting:
        yield f"% Cannot commit session: another session {waiting.name} is pending commit timer"
        return
    seconds = None
    if said:
        hours, minutes, rest = map(int, said[0].split(":"))
        seconds = (hours * 60 + minutes) * 60 + rest
    session.leave()
    device.commit(candidate, seconds)


def _abort(session: Session, _: tuple[str, ...]) -> Answer:
    session.device.abort(_candidate(session), "asked")
    session.leave()
    return ()


def _finish_session(how: str) -> Command:
    def act(session: Session, said: tuple[str, ...]) -> Iterator[str]:
        found = session.device.sessions.get(said[0])
        if found is None or (how == "commit" and found.deadline is None):
            yield f"% No pending commit timer for session {said[0]}"
        elif how == "commit":
            del session.device.sessions[found.name]
        else:
            session.device.abort(found, "asked")

    return act


def _diffs(session: Session, _: tuple[str, ...]) -> Iterator[str]:
    candidate = _candidate(session)
    yield from difflib.unified_diff(
        list(eos_config(session.device.running)),
        list(eos_config(candidate.settings)),
        "system:/running-config",
        f"session:/{candidate.name}-session-config",
        lineterm="",
    )


def _sessions(device: Device) -> Iterator[str]:
    yield "Maximum number of completed sessions: 1"
    yield "Maximum number of pending sessions: 5"
    yield ""
    yield "  Name          State                 User     Terminal"
    yield "  ------------- --------------------- -------- --------"
    for name, found in device.sessions.items():
        state = "pending" if found.deadline is None else "pendingCommitTimer"
        yield f"  {name:<13} {state:<21} admin    vty4"


# --- tables -------------------------------------------------------------------------------------

_SHOW: dict[str, Command] = {
    "show vlan brief": _show(printed.vlan_brief),
    "show vlan": _show(printed.vlan_brief),
    "show interfaces status": _show(printed.interfaces_status),
    "show interfaces counters": _show(printed.counters),
    "show power inline": _show(printed.power_inline),
    "show mac address-table": _show(printed.mac_table),
    "show lldp neighbors": _show(printed.lldp_neighbors),
    "show running-config": _show(_running),
    "show startup-config": _show(_startup),
}
_EOS_SHOW: dict[str, Command] = {"show poe": _show(printed.poe)}
_USER: dict[str, Command] = {
    "enable": _enable,
    "exit": _close,
    "logout": _close,
    "terminal length COUNT": _length,
    "terminal width COUNT": _width,
}
_PRIVILEGED: dict[str, Command] = {
    **_SHOW,
    **_USER,
    "disable": _disable,
    "configure": _configure,
    "configure terminal": _configure,
    "write": _save,
    "write memory": _save,
    "copy running-config startup-config": _copy_to_startup,
    "reload": _reload(0),
}
_IOS_REVERT: dict[str, Command] = {
    "configure terminal revert timer MINUTES": _configure_revert,
    "configure confirm": _confirm,
    "configure revert now": _revert_now,
}
_IOS: dict[str, Command] = {
    **_PRIVILEGED,
    **_IOS_REVERT,
    "show archive": _show(_archive),
    "show archive config rollback timer": _show(_rollback_timer),
    "show reload": _show(_show_reload),
    "reload in MINUTES": _reload(0),
    "reload cancel": _reload_cancel,
}
_EOS_SESSION: dict[str, Command] = {
    "commit": _commit,
    "commit timer TIME": _commit,
    "abort": _abort,
    "show session-config diffs": _diffs,
}
_EOS: dict[str, Command] = {
    **_PRIVILEGED,
    "configure session": _open_session,
    "configure session WORD": _open_session,
    "configure session WORD commit": _finish_session("commit"),
    "configure session WORD abort": _finish_session("abort"),
    "show configuration sessions": _show(_sessions),
    **_EOS_SHOW,
}

COMMANDS: dict[str, Command] = {**_IOS, **_EOS, **_EOS_SESSION}


def table(device: Device, privileged: bool) -> Sequence[Pattern]:
    """What may be typed outside configuration mode."""
    return _table(device.kind, privileged, device.knobs.revert_timer)


@cache
def _table(kind: Kind, privileged: bool, revert_timer: bool) -> Sequence[Pattern]:
    known = (_IOS if kind == "ios" else _EOS) if privileged else _USER
    old = () if revert_timer else _IOS_REVERT
    return patterns((text, text) for text in known if text not in old)


@cache
def in_configuration(in_session: bool) -> Sequence[Pattern]:
    """What EOS takes in configuration mode beside configuration."""
    known = {**_SHOW, **_EOS_SHOW, **(_EOS_SESSION if in_session else {})}
    return patterns((text, text) for text in known)
