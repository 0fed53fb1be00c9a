"""From an Android that is set to the first ssh: apps, first key, ssh under supervision, all by adb.

adb's user cannot enter Termux's data. A debug build of Termux lets it in by `run-as`; into any
other the way is the keyboard: a script that lies where the app can read it is typed into its
terminal. It tells how it fares in the system's log, where adb reads it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from fleetctl.provision.android import TERMUX_APPS
from fleetctl.provision.apk import Apk
from fleetctl.provision.enrol_facts import Found
from fleetctl.provision.enrol_files import Luggage
from fleetctl.rack.variables import TERMUX_HOME, TERMUX_PREFIX
from fleetctl.remote.adb import AdbPhone

PARCEL = "/data/local/tmp/phonerack"
SCRIPT = "enrol.sh"
LOG_TAG = "phonerack"
START_LIMIT_SECONDS = 120.0
"""Termux's first start unpacks hundreds of megabytes."""

SETUP_LIMIT_SECONDS = 600.0
TYPE_AGAIN_SECONDS = 8.0
_POLL_SECONDS = 0.5
_TERMUX, _BOOT = TERMUX_APPS[0], TERMUX_APPS[2]
_TERMUX_ACTIVITY = f"{_TERMUX}/.app.TermuxActivity"

BOOT_SCRIPT = f"""#!{TERMUX_PREFIX}/bin/sh
# Termux:Boot runs this when the phone has started: stay awake, and serve.
termux-wake-lock
. {TERMUX_PREFIX}/etc/profile.d/start-services.sh
"""

type Tell = Callable[[str], None]


class NeedsHands(Exception):
    """Only a person at the phone can go on; the message says what to do there."""


class Failed(Exception):
    """A step went wrong; the message says what, and what to do."""


def setup_script(operator: str, nonce: str, *, serve: bool) -> str:
    """What runs in Termux: packages, the operator's key, what a boot starts; then, if `serve`, ssh.

    It may run again, whatever an earlier run has left. It speaks by the system's log, each line
    with `nonce`.
    """
    start = f'. "$PREFIX/etc/profile.d/start-services.sh"\n{_START_SSHD}' if serve else ""
    return f"""# Written by fleetctl enroll; runs in Termux.
export PREFIX={TERMUX_PREFIX} HOME={TERMUX_HOME}
export TMPDIR=$PREFIX/tmp PATH=$PREFIX/bin:/system/bin
say() {{ /system/bin/log -t {LOG_TAG} "{nonce} $*"; }}
fail() {{ say "failed $*"; exit 1; }}
umask 077
say started
mkdir -p "$TMPDIR" "$HOME/.ssh" "$HOME/.termux/boot"

# What a rack that the phone was in before has left: names, certificates, rules, keys.
[ ! -e "$PREFIX/etc/phonerack" ] || rm -f "$PREFIX"/etc/ssh/ssh_host_*
rm -rf "$PREFIX/etc/phonerack" "$PREFIX"/etc/ssh/phonerack_* "$HOME"/.ssh/phonerack_* \\
    "$PREFIX"/etc/ssh/sshd_config.d/phonerack*.conf "$PREFIX"/etc/ssh/ssh_config.d/phonerack*.conf

printf '%s\\n' {shlex.quote(operator)} >"$HOME/.ssh/authorized_keys" ||
    fail "no room for the key"
chmod 0700 "$HOME/.ssh" && chmod 0600 "$HOME/.ssh/authorized_keys"

say installing
umask 022
# Nobody answers dpkg's question about a file that somebody has edited: his stays.
keep="--force-confdef --force-confold"
said=$( {{ dpkg $keep --configure -a && dpkg $keep --install --refuse-downgrade \\
    --skip-same-version {PARCEL}/*.deb; }} 2>&1 </dev/null) ||
    fail "dpkg: $(printf '%s\\n' "$said" | tail -n 1)"
# But sshd goes by the first value that it reads, and that has to be the rack's.
config="$PREFIX/etc/ssh/sshd_config" rules="Include $PREFIX/etc/ssh/sshd_config.d/*.conf"
first=$(grep -v -e '^[[:space:]]*#' -e '^[[:space:]]*$' "$config" 2>/dev/null | head -n 1)
if [ "$first" != "$rules" ]; then
    {{ printf '%s\\n' "$rules" && {{ [ ! -e "$config" ] || cat "$config"; }}; }} \\
        >"$config.phonerack" && mv "$config.phonerack" "$config" || fail "no room for sshd_config"
fi
[ -s "$PREFIX/etc/ssh/ssh_host_ed25519_key" ] ||
    ssh-keygen -q -t ed25519 -N '' -f "$PREFIX/etc/ssh/ssh_host_ed25519_key" </dev/null ||
    fail "ssh-keygen makes no host key"

cat >"$HOME/.termux/boot/phonerack" <<'END'
{BOOT_SCRIPT}END
chmod 0700 "$HOME/.termux/boot/phonerack"
rm -f "$PREFIX/var/service/sshd/down"
{start}say done
"""


_START_SSHD = """termux-wake-lock
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sv up "$PREFIX/var/service/sshd" >/dev/null 2>&1 && break
    sleep 1
done
"""


async def install_apps(phone: AdbPhone, wanted: Mapping[str, Apk], found: Found) -> None:
    """Install what is missing or older than the operator's.

    Raises Failed, and installs nothing, where the phone has one of another signer.
    """
    foreign = [
        apk
        for package, apk in wanted.items()
        if apk.signature and found.signatures.get(package, apk.signature) != apk.signature
    ]
    if foreign:
        pairs = ", ".join(
            f"{apk.package} is signed by another key than {apk.path.name}" for apk in foreign
        )
        raise Failed(
            f"on the phone {pairs}: {_UNINSTALL}; or put into {foreign[0].path.parent} the .apk "
            "files from where the phone's come from (all three from the same), and rerun"
        )
    for package, apk in wanted.items():
        if found.apps.get(package, -1) >= apk.version_code:
            continue
        said = await phone.install(apk.path)
        if not said.ok or "Success" not in said.stdout:
            raise Failed(explain_install(package, said.stdout + said.stderr))


_UNINSTALL = (
    "uninstall com.termux, com.termux.api and com.termux.boot on it, which deletes their data, and "
    "rerun"
)


def explain_install(package: str, said: str) -> str:
    """Android's word for a refused installation, with the cure."""
    if "_INCOMPATIBLE" in said:
        return (
            f"{package}: the phone has Termux apps signed by another key (Android says: "
            f"{_reason(said)}): {_UNINSTALL}"
        )
    if "INSUFFICIENT_STORAGE" in said:
        return f"{package}: no room on the phone ({_reason(said)}): delete something, and rerun"
    if "NO_MATCHING_ABIS" in said:
        return f"{package}: the package has no code for this phone's processor ({_reason(said)})"
    return f"{package}: Android does not install it: {_reason(said)}"


def _reason(said: str) -> str:
    start = said.find("Failure [")
    return said[start:].splitlines()[0] if start >= 0 else said.strip().splitlines()[-1]


async def is_debuggable(phone: AdbPhone) -> bool:
    """Whether the Termux that the phone has lets adb's user in; no where Android does not tell."""
    said = await phone.shell(f"dumpsys package {_TERMUX} | grep -E '^ *(pkgF|f)lags='")
    return re.search(r"\bDEBUGGABLE\b", said.stdout) is not None


async def set_up_ssh(phone: AdbPhone, luggage: Luggage, operator: str, tell: Tell) -> None:
    """Leave sshd running under Termux's supervisor, with the operator's key. May be done again.

    Raises NeedsHands, Failed, AdbLost.
    """
    nonce = secrets.token_hex(8)
    debuggable = await is_debuggable(phone)
    script = setup_script(operator, nonce, serve=not debuggable)
    await _bring(phone, luggage, script)
    try:
        await phone.shell(f"logcat -c; am force-stop {_TERMUX}")
        await open_apps(phone)
        if debuggable:
            await _by_run_as(phone, nonce, tell)
        else:
            await _by_keyboard(phone, nonce, tell)
    finally:
        await phone.shell(f"rm -rf {PARCEL}")


async def _bring(phone: AdbPhone, luggage: Luggage, script: str) -> None:
    """The script and the packages, where the app can read and nobody but adb can write."""
    await phone.shell(f"rm -rf {PARCEL} && mkdir -m 0755 {PARCEL}")
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / SCRIPT
        local.write_text(script)
        said = await phone.push([local, *luggage.debs], f"{PARCEL}/")
    if not said.ok:
        raise Failed(f"cannot copy to {PARCEL}: {said.complaint}")
    await phone.shell(f"chmod 0644 {PARCEL}/*")


async def open_apps(phone: AdbPhone) -> None:
    """Start Termux:Boot once, else Android tells it of no boot; then Termux, in front.

    Raises NeedsHands where the screen stays locked.
    """
    await phone.shell("input keyevent KEYCODE_WAKEUP; wm dismiss-keyguard; sleep 0.5")
    if "showing=true" in (await phone.shell("dumpsys window policy")).stdout:
        raise NeedsHands("its screen is locked: unlock it, remove the PIN or pattern, and rerun")
    # Termux:Boot's own activity differs by version: Android knows which one it is.
    boot_activity = f"$(cmd package resolve-activity --brief {_BOOT} | tail -n 1)"
    for app, activity in (("Termux:Boot", boot_activity), ("Termux", _TERMUX_ACTIVITY)):
        started = await phone.shell(f'am start -n "{activity}"')
        if not started.ok or "Error" in started.stdout + started.stderr:
            raise Failed(f"{app} does not open: {started.complaint}")


async def _by_run_as(phone: AdbPhone, nonce: str, tell: Tell) -> None:
    """A debug build: adb's user becomes Termux's. Services are started by the app itself."""
    tell("waiting for Termux to unpack")
    shell = f"{TERMUX_PREFIX}/bin/sh"
    look = f"run-as {_TERMUX} ls {shell}"
    wait = (
        f"n=0; until {look} >/dev/null 2>&1 || [ $n -ge {START_LIMIT_SECONDS:g} ]; "
        f"do n=$((n + 1)); sleep 1; done; {look}"
    )
    entered = await phone.shell(wait, limit_seconds=2 * START_LIMIT_SECONDS)
    if not entered.ok:
        raise Failed(
            f"Termux cannot be entered {START_LIMIT_SECONDS:g} s after it was opened "
            f"({entered.complaint}): open Termux on the phone, wait for its prompt, and rerun"
        )
    tell("installing ssh")
    command = f"run-as {_TERMUX} {shell} {PARCEL}/{SCRIPT}"
    said = await phone.shell(command, limit_seconds=SETUP_LIMIT_SECONDS)
    last = await last_word(phone, nonce)
    if not said.ok or last != "done":
        raise Failed(last if last.startswith("failed") else f"run-as: {said.complaint}")
    # A new session of the app starts what its profile says, as one that a person opens does.
    await phone.shell(f"am force-stop {_TERMUX}; am start -n {_TERMUX_ACTIVITY}")


async def _by_keyboard(phone: AdbPhone, nonce: str, tell: Tell) -> None:
    """Type until the script says that it has started, then wait for its last word."""
    tell("waiting for Termux to unpack")
    clock = asyncio.get_running_loop().time
    begun, typed = clock(), -TYPE_AGAIN_SECONDS
    word = ""
    while not word:
        if clock() - begun > START_LIMIT_SECONDS:
            raise NeedsHands(
                "Termux does not take what is typed: open it on the phone, wait for its prompt, "
                "leave it in front with the screen on, and rerun"
            )
        if clock() - typed > TYPE_AGAIN_SECONDS:
            await phone.shell(f"input text 'sh%s{PARCEL}/{SCRIPT}'; input keyevent 66")
            typed = clock()
        await asyncio.sleep(_POLL_SECONDS)
        word = await last_word(phone, nonce)
    tell("installing ssh")
    while word not in ("done",) and not word.startswith("failed"):
        if clock() - begun > SETUP_LIMIT_SECONDS:
            raise Failed(f"Termux still says `{word}` after {SETUP_LIMIT_SECONDS:g} s: rerun")
        await asyncio.sleep(_POLL_SECONDS)
        word = await last_word(phone, nonce)
    if word != "done":
        raise Failed(f"in Termux: {word.removeprefix('failed ')}")


async def last_word(phone: AdbPhone, nonce: str) -> str:
    """What the script has said last; empty while it has not been started."""
    said = await phone.shell(f"logcat -d -s {LOG_TAG}:I")
    lines = [line.partition(f"{nonce} ")[2] for line in said.stdout.splitlines() if nonce in line]
    return lines[-1].strip() if lines else ""
