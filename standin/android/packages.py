"""`pm`, Android's package manager: install, list, remove, with its words for what it refuses."""

from __future__ import annotations

from standin.android import apk
from standin.android.binder import Call, Failed
from standin.android.state import DUMP, TERMUX, TERMUX_API, TERMUX_BOOT, AndroidState, App

_INSTALL_FLAGS_WITH_VALUE = ("-S", "-i", "--user", "--abi")
_APK_LIMIT_BYTES = 200 << 20


def decide(state: AndroidState, content: apk.Content, words: list[str]) -> App:
    """The app that an install makes, before anything of it happens. Raises Failed, as Android."""
    present = state.apps.get(content.package)
    if present and present.signer != content.signer:
        raise _refused(
            "INSTALL_FAILED_UPDATE_INCOMPATIBLE",
            f"Package {content.package} signatures do not match previously installed version; "
            "ignoring!",
        )
    kin = [app for app in state.apps.values() if app.shared_user == content.shared_user]
    if content.shared_user and any(app.signer != content.signer for app in kin):
        raise _refused(
            "INSTALL_FAILED_SHARED_USER_INCOMPATIBLE",
            f"Package {content.package} has no signatures that match those in shared user "
            f"{content.shared_user}; ignoring!",
        )
    if present and "-r" not in words and "-R" in words:
        raise _refused(
            "INSTALL_FAILED_ALREADY_EXISTS",
            f"Attempt to re-install {content.package} without first uninstalling.",
        )
    if present and present.version_code > content.version_code and "-d" not in words:
        raise _refused(
            "INSTALL_FAILED_VERSION_DOWNGRADE",
            f"Downgrade detected: Update version code {content.version_code} is older than "
            f"current {present.version_code}",
        )
    uid = present.uid if present else kin[0].uid if kin else state.next_uid
    return App(
        version_code=content.version_code,
        version_name=content.version_name,
        signer=content.signer,
        uid=uid,
        debuggable=content.debuggable,
        shared_user=content.shared_user,
        opened=present.opened if present else False,
        granted=present.granted if present else [],
        signature=content.signature,
    )


def enter(state: AndroidState, package: str, app: App) -> None:
    state.apps[package] = app
    state.next_uid = max(state.next_uid, app.uid + 1)


def forget(state: AndroidState, package: str) -> App:
    """Remove an app and all that was set for it. Raises Failed when there is none."""
    app = state.apps.pop(package, None)
    if app is None:
        raise Failed(f"Failure [not installed for 0]\nUnknown package: {package}", 1)
    state.app_ops.pop(package, None)
    if package in state.doze_exempt:
        state.doze_exempt.remove(package)
    return app


def content_of(data: bytes) -> apk.Content:
    """Raises Failed where this phone cannot install it."""
    try:
        return apk.read(data)
    except apk.Unreadable as problem:
        if data[:2] == b"PK":
            # A real app's code is for real phones.
            raise _refused(
                "INSTALL_FAILED_NO_MATCHING_ABIS", "Failed to extract native libraries, res=-113"
            ) from None
        raise _refused("INSTALL_PARSE_FAILED_NOT_APK", f"Failed to parse: {problem}") from None


async def streamed(call: Call) -> bytes | None:
    """The package that comes by standard input, as `-S SIZE` says; None for one given by path."""
    if "-S" not in call.words:
        return None
    size = int(call.words[call.words.index("-S") + 1])
    if size > _APK_LIMIT_BYTES:
        raise _refused("INSTALL_FAILED_INSUFFICIENT_STORAGE", "Not enough space")
    data = bytearray()
    async for piece in call.input():
        data += piece
        if len(data) >= size:
            break
    return bytes(data[:size])


def path_of(words: list[str]) -> str:
    """The path among the words of an install. Raises Failed."""
    places = iter(words)
    for word in places:
        if word in _INSTALL_FLAGS_WITH_VALUE:
            next(places, None)
        elif not word.startswith("-"):
            return word
    raise Failed("Error: must either specify a package size or an APK file", 1)


async def list_packages(state: AndroidState, call: Call) -> int:
    """pm list packages [-3] [--show-versioncode] [-U] [FILTER]"""
    flags = [word for word in call.words[2:] if word.startswith("-")]
    parts = [word for word in call.words[2:] if not word.startswith("-")]
    own = [] if "-3" in flags else ["android", "com.android.settings"]
    for name in sorted([*own, *state.apps]):
        if not all(part in name for part in parts):
            continue
        app = state.apps.get(name)
        line = f"package:{name}"
        if "--show-versioncode" in flags:
            line += f" versionCode:{app.version_code if app else state.api_level}"
        if "-U" in flags:
            line += f" uid:{app.uid if app else 1000}"
        await call.say(f"{line}\n")
    return 0


# What each app's manifest asks for, of what adb can grant.
_ASKED = {TERMUX: (DUMP, "android.permission.READ_LOGS")}


def grant(state: AndroidState, verb: str, package: str, permission: str) -> None:
    """pm grant|revoke PACKAGE PERMISSION. Raises Failed."""
    app = state.apps.get(package)
    if app is None:
        raise Failed(f"java.lang.IllegalArgumentException: Unknown package: {package}")
    if permission not in _ASKED.get(package, ()):
        raise Failed(
            f"java.lang.SecurityException: Package {package} has not requested permission "
            f"{permission}"
        )
    app.granted = [each for each in app.granted if each != permission]
    if verb == "grant":
        app.granted.append(permission)


async def path(state: AndroidState, call: Call) -> int:
    """pm path PACKAGE"""
    name = call.word(1)
    if name not in state.apps:
        return 1
    await call.say(f"package:/data/app/{name}-1/base.apk\n")
    return 0


# What each app shows first; Android knows it from the app's manifest.
ACTIVITIES = {
    TERMUX: ".app.TermuxActivity",
    TERMUX_API: ".activities.TermuxAPIMainActivity",
    TERMUX_BOOT: ".BootActivity",
}


async def resolve_activity(state: AndroidState, call: Call) -> int:
    """pm resolve-activity [--brief] PACKAGE: what starts when somebody opens the app."""
    package = call.words[-1]
    if package in state.apps and package in ACTIVITIES:
        await call.say("priority=0 preferredOrder=0 match=0x108000 isDefault=false\n")
        await call.say(f"{package}/{ACTIVITIES[package]}\n")
    else:
        await call.say("No activity found\n")
    return 0


def _refused(code: str, why: str) -> Failed:
    return Failed(f"Failure [{code}: {why}]", 1)
