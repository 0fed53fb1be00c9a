"""What one phone says about itself before a launch. Runs on the phone by `kept_code.py`, with or
without the argument `stamp`.

Prints one JSON object. Standard library only, and only its core at the top: on a phone whose
Python lacks a module, that module's name is the answer, not a traceback. Modules cost more than
all the rest, so even json is not imported.

Importing torch takes seconds, and starting mpirun a tenth of one. So a fingerprint (sizes and
times) of all that these need is kept once they were good, and an equal fingerprint spares them.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # typing itself costs as much as all the rest
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILES = "/data/data/com.termux/files"
HOME = FILES + "/home"
PREFIX = FILES + "/usr"
SSH = PREFIX + "/etc/ssh"
STAMP = HOME + "/phonerack/preflight.stamp"
AWAKE = HOME + "/phonerack/preflight.awake"
SNAPSHOT = HOME + "/phonerack/exporter/snapshot.json"

# Ansible's modules and the trainer need these; rolling packages have broken each of them once.
QUICK_MODULES = ("grp", "pwd", "fcntl", "ssl", "_multiprocessing", "ctypes", "subprocess")
SLOW_MODULES = ("numpy", "torch")

AWAKE_EVERY_SECONDS = 60.0


def read(path: str, most: int = 1 << 20) -> str | None:
    """Text of a file, None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return None


def write(path: str, text: str) -> None:
    """Best effort: a full phone is told of by its own check."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w") as file:
            file.write(text)
        os.rename(part, path)
    except OSError:
        pass


def package_folders() -> list[str]:
    """Where Python looks for packages; the user's own folder counts before the system's."""
    own = os.path.dirname(os.__file__)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return [HOME + "/.local/lib/" + version + "/site-packages", own + "/site-packages"]


def marks() -> Iterator[str]:
    """Size and time of the interpreter, its modules, the packages' libraries and Open MPI."""
    paths = [os.path.realpath(sys.executable), PREFIX + "/var/lib/dpkg/status"]
    folders = [os.path.dirname(os.__file__) + "/lib-dynload"]
    folders += [PREFIX + "/lib/openmpi", PREFIX + "/lib/pmix"]
    for packages in package_folders():
        parts = [name + part for name in SLOW_MODULES for part in ("", "/lib", "/_core")]
        folders += [packages, *(packages + "/" + part for part in parts)]
    paths += [PREFIX + "/bin/" + name for name in ("mpirun", "orterun", "prterun", "prte", "prted")]
    for folder in folders:
        try:
            paths += [entry.path for entry in os.scandir(folder)]
        except OSError:
            continue
    try:
        libs = [entry for entry in os.scandir(PREFIX + "/lib") if entry.name.startswith("lib")]
        paths += [entry.path for entry in libs if not entry.name.endswith((".a", ".la"))]
    except OSError:
        pass
    for path in sorted(paths):
        try:
            status = os.stat(path)
        except OSError:
            yield path
        else:
            yield f"{path} {status.st_size} {status.st_mtime_ns}"


def fingerprint() -> str:
    """Of all that importing and starting needs; a new Android counts too."""
    from binascii import crc32

    system = "{} {}".format(sys.version, " ".join(os.uname()[2:4]))
    return "{:08x}".format(crc32("\n".join([system, *marks()]).encode()))


def failures(names: Iterable[str]) -> dict[str, str]:
    """Module -> why it cannot be imported."""
    import importlib

    found = {}
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            found[name] = (f"{type(error).__name__}: {error}")[:300].replace("\n", " ")
    return found


def software(keep_stamp: bool) -> dict[str, object]:
    """What imports, which Open MPI starts, and whether a stamp spared the trial."""
    now = fingerprint()
    kept = (read(STAMP) or "").split("\n")
    if kept[0] == now and len(kept) >= 2:
        missing = dict(line.split("\t", 1) for line in kept[2:] if "\t" in line)
        return {"missing_modules": missing, "imports_spared": True, "openmpi": kept[1]}
    if sys.flags.no_site:
        import site

        site.main()
    missing = failures(QUICK_MODULES + SLOW_MODULES)
    version, problem = openmpi()
    # What is not there at all will not be there the next time either; what breaks may heal.
    settled = all(f"No module named '{name}'" in why for name, why in missing.items())
    if keep_stamp and version and settled and not set(missing) & set(QUICK_MODULES):
        lines = [now, version, *("{}\t{}".format(*item) for item in missing.items())]
        write(STAMP, "\n".join(lines) + "\n")
    return {
        "missing_modules": missing,
        "imports_spared": False,
        "openmpi": version,
        "openmpi_problem": problem,
    }


def openmpi() -> tuple[str | None, str | None]:
    """The version as mpirun itself says it, so that it is known to start; else why it does not."""
    try:
        import subprocess

        done = subprocess.run(
            [PREFIX + "/bin/mpirun", "--version"], capture_output=True, text=True, timeout=10
        )
    except (ImportError, OSError, ValueError) as error:
        return None, str(error)
    except subprocess.TimeoutExpired:
        return None, "mpirun --version does not end"
    if done.returncode:
        return None, (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    version = next((word for word in done.stdout.split() if word[0].isdigit()), None)
    return version, None if version else "mpirun --version names no version"


def free_bytes(path: str) -> int | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def free_memory_bytes() -> int | None:
    for line in (read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def load() -> float | None:
    """Processes that want to run, over the last minute; Android may not tell."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def awake(keep_stamp: bool) -> list[float] | None:
    """For how long the phone slept since the last look, and how long ago that was.

    A phone that holds its wake lock never sleeps. Its own clocks tell: one of them stands still
    meanwhile.
    """
    try:
        up = time.clock_gettime(time.CLOCK_BOOTTIME)
        slept = up - time.clock_gettime(time.CLOCK_MONOTONIC)
    except (OSError, AttributeError):
        return None
    try:
        before = [float(word) for word in (read(AWAKE) or "").split()]
    except ValueError:
        before = []
    same_boot = len(before) == 2 and before[0] <= up and before[1] <= slept + 1
    if keep_stamp and not (same_boot and up - before[0] < AWAKE_EVERY_SECONDS):
        write(AWAKE, f"{up:f} {slept:f}\n")
    return [slept - before[1], up - before[0]] if same_boot else None


def interfaces() -> dict[str, str] | None:
    """Address -> interface, by the one ioctl that Android still allows an app (SIOCGIFCONF)."""
    try:
        import fcntl
        from _ctypes import Array, _SimpleCData, addressof
        from _socket import AF_INET, SOCK_DGRAM, socket
        from _struct import pack, unpack

        # Not the module array: it costs a third of a start of Python, as it needs collections.
        byte = type("byte", (_SimpleCData,), {"_type_": "B"})
        buffer = type("buffer", (Array,), {"_type_": byte, "_length_": 8192})()
        sock = socket(AF_INET, SOCK_DGRAM)
        request = pack("iP", len(buffer), addressof(buffer))
        length = unpack("iP", fcntl.ioctl(sock.fileno(), 0x8912, request))[0]
        sock.close()
    except (ImportError, OSError):
        return None
    raw = bytes(buffer)[:length]
    entries = [raw[start : start + 40] for start in range(0, length, 40)]
    return {
        ".".join(map(str, entry[20:24])): entry[:16].split(b"\0")[0].decode() for entry in entries
    }


def release() -> str | None:
    """Version that the release's manifest names; its text is JSON, read on the other side."""
    return read(HOME + "/phonerack/current/manifest.json", 1 << 16)


def revocations() -> int | None:
    """Version of the list of revoked keys that sshd goes by (OpenSSH's KRL)."""
    try:
        with open(SSH + "/phonerack_krl", "rb") as file:
            head = file.read(20)
    except OSError:
        return None
    whole = len(head) == 20 and head.startswith(b"SSHKRL\n\0")
    return int.from_bytes(head[12:], "big") if whole else None


RULES = (
    "trustedusercakeys",
    "authorizedprincipalsfile",
    "revokedkeys",
    "passwordauthentication",
    "kbdinteractiveauthentication",
)
"""Settings of sshd by which the rack says who gets in."""


def settings(path: str) -> Iterator[tuple[str, str]]:
    """Names and values in the order in which sshd reads them, of which the first counts; up to a
    Match, whose conditions nobody can tell here."""
    for line in (read(path) or "").splitlines():
        words = line.replace("=", " ", 1).replace('"', "").split(None, 1)
        if not words or words[0].startswith("#"):
            continue
        name, value = words[0].lower(), words[-1].strip()
        if name != "include":
            yield name, value
        for pattern in value.split() if name == "include" else ():
            yield from included(pattern)
        if name == "match":
            return


def included(pattern: str) -> Iterator[tuple[str, str]]:
    """Of the files that an Include names; its patterns have one star at most, in the last part."""
    folder, _, last = (pattern if pattern[0] == "/" else f"{SSH}/{pattern}").rpartition("/")
    begin, star, end = last.partition("*")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        fits = star and name.startswith(begin) and name.endswith(end) and name[0] != "."
        if fits or name == last:
            yield from settings(f"{folder}/{name}")


def void_rules() -> list[str]:
    """Settings of the rack's own that sshd, by all that it reads, has otherwise or not at all."""
    wanted: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, value in settings(SSH + "/sshd_config.d/phonerack.conf"):
        wanted.setdefault(name, value)
    for name, value in settings(SSH + "/sshd_config"):
        found.setdefault(name, value)
    return [name for name in RULES if name in wanted and found.get(name) != wanted[name]]


def neighbours() -> dict[str, str] | None:
    """Name -> address of the phones that this one can start ranks on."""
    text = read(SSH + "/ssh_config.d/phonerack.conf")
    if text is None:
        return None
    hosts = [line.split()[1:] for line in text.splitlines() if line.startswith("Host ")]
    return {host[0]: host[1] for host in hosts if len(host) == 2}


def host_file() -> list[str] | None:
    """Addresses in the order of the host file for a plain mpirun."""
    text = read(HOME + "/phonerack/hostfile")
    if text is None:
        return None
    lines = text.splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def processes() -> tuple[dict[str, list[int]], int | None]:
    """Run -> its processes here, by the mark that every process of a run carries; and how many
    processes Termux has now, this one's among them. Of others' an app sees none."""
    runs: dict[str, list[int]] = {}
    count, own = 0, os.getuid()
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return runs, None
    for pid in pids:
        try:
            count += os.stat("/proc/" + pid).st_uid == own
            with open("/proc/" + pid + "/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue
        for entry in entries:
            if entry.startswith(b"PHONERACK_RUN="):
                run = entry.partition(b"=")[2].decode(errors="replace")
                runs.setdefault(run, []).append(int(pid))
    return runs, count or None


def dump(value: object) -> str:
    """JSON."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{{{}}}".format(", ".join(f"{dump(str(k))}: {dump(v)}" for k, v in value.items()))
    if isinstance(value, list | tuple):
        return "[{}]".format(", ".join(map(dump, value)))
    from _json import encode_basestring_ascii

    return encode_basestring_ascii(str(value))


def main() -> None:
    keep_stamp = "stamp" in sys.argv
    runs, children = processes()
    facts = {
        "clock": time.time(),
        "python": sys.version.split()[0],
        "bears": (read(PREFIX + "/etc/phonerack/name") or "").strip() or None,
        **software(keep_stamp),
        "manifest": release(),
        "free_disk_bytes": free_bytes(HOME),
        "free_temporary_bytes": free_bytes(os.environ.get("TMPDIR") or os.path.join(PREFIX, "tmp")),
        "free_memory_bytes": free_memory_bytes(),
        "load": load(),
        "cores": os.cpu_count(),
        "awake": awake(keep_stamp),
        "interfaces": interfaces(),
        "revocations": revocations(),
        "void_rules": void_rules(),
        "neighbours": neighbours(),
        "host_file": host_file(),
        "runs": runs,
        "children": children,
        "snapshot": read(SNAPSHOT),
    }
    print(dump(facts))


main()
