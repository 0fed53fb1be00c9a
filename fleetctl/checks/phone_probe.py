"""What one phone says about itself before a launch. Runs on the phone: `python - [stamp]`.

Prints one JSON object. Standard library only, and only its core at the top: on a phone whose
Python lacks a module, that module's name is the answer, not a traceback.

Importing torch takes seconds. So a fingerprint (sizes and times) of all that an import needs is
kept once the import was good, and an equal fingerprint spares it.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

HOME = Path("/data/data/com.termux/files/home")
PREFIX = Path("/data/data/com.termux/files/usr")
SSH = PREFIX / "etc/ssh"
STAMP = HOME / "phonerack/preflight.json"

# Ansible's modules and the trainer need these; rolling packages have broken each of them once.
QUICK_MODULES = ("grp", "pwd", "fcntl", "ssl", "_multiprocessing", "ctypes", "subprocess")
SLOW_MODULES = ("numpy", "torch")


def failures(names: Iterable[str]) -> dict[str, str]:
    """Module -> why it cannot be imported."""
    found = {}
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            found[name] = f"{type(error).__name__}: {error}"[:300]
    return found


def fingerprint() -> str:
    """Sizes and times of the interpreter, its own modules, and of the packages' libraries."""
    paths = [Path(sys.executable), PREFIX / "var/lib/dpkg/status"]
    paths += Path(os.__file__).parent.glob("lib-dynload/*")
    for folder in sys.path:
        for name in SLOW_MODULES:
            package = Path(folder) / name
            paths += [package, *package.glob("*"), *package.glob("lib/*"), *package.glob("_core/*")]
    marks: list[tuple[str, int, int]] = []
    for path in sorted(paths):
        with suppress(OSError):
            status = path.stat()
            marks.append((str(path), status.st_size, status.st_mtime_ns))
    import hashlib

    return hashlib.sha256(repr(marks).encode()).hexdigest()


def missing_modules(keep_stamp: bool) -> tuple[dict[str, str], bool]:
    """Modules that do not import, and whether the slow ones were spared."""
    found = failures(QUICK_MODULES)
    now = fingerprint()
    try:
        known = json.loads(STAMP.read_text()).get("importable") == now
    except (OSError, ValueError, AttributeError):
        known = False
    if not known:
        found.update(failures(SLOW_MODULES))
        if not found and keep_stamp:
            with suppress(OSError):
                part = STAMP.with_suffix(".part")
                part.write_text(json.dumps({"importable": now}))
                part.replace(STAMP)
    return found, known


def free_bytes(path: Path) -> int | None:
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def free_memory_bytes() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def interfaces() -> dict[str, str] | None:
    """Address -> interface, by the one ioctl that Android still allows an app (SIOCGIFCONF)."""
    try:
        import array
        import fcntl
        import socket
        import struct

        buffer = array.array("B", bytes(4096))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
            length = struct.unpack("iP", fcntl.ioctl(sock, 0x8912, request))[0]
    except (ImportError, OSError):
        return None
    raw = buffer.tobytes()[:length]
    entries = [raw[start : start + 40] for start in range(0, length, 40)]
    return {
        ".".join(map(str, entry[20:24])): entry[:16].split(b"\0")[0].decode() for entry in entries
    }


def openmpi() -> tuple[str | None, str | None]:
    """The version as mpirun itself says it, so that it is known to start; else why it does not."""
    try:
        import subprocess

        done = subprocess.run(
            [PREFIX / "bin/mpirun", "--version"], capture_output=True, text=True, timeout=10
        )
    except (ImportError, OSError, ValueError) as error:
        return None, str(error)
    except subprocess.TimeoutExpired:
        return None, "mpirun --version does not end"
    if done.returncode:
        return None, (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    version = next((word for word in done.stdout.split() if word[0].isdigit()), None)
    return version, None if version else "mpirun --version names no version"


def release() -> str | None:
    try:
        version = json.loads((HOME / "phonerack/current/manifest.json").read_text())["version"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return str(version)


def revocations() -> int | None:
    """Version of the list of revoked keys that sshd goes by (OpenSSH's KRL)."""
    try:
        head = (SSH / "phonerack_krl").read_bytes()[:20]
    except OSError:
        return None
    whole = len(head) == 20 and head.startswith(b"SSHKRL\n\0")
    return int.from_bytes(head[12:], "big") if whole else None


def neighbours() -> dict[str, str] | None:
    """Name -> address of the phones that this one can start ranks on."""
    try:
        lines = (SSH / "ssh_config.d/phonerack.conf").read_text().splitlines()
    except OSError:
        return None
    hosts = [line.split()[1:] for line in lines if line.startswith("Host ")]
    return {host[0]: host[1] for host in hosts if len(host) == 2}


def host_file() -> list[str] | None:
    """Addresses in the order of the host file for a plain mpirun."""
    try:
        lines = (HOME / "phonerack/hostfile").read_text().splitlines()
    except OSError:
        return None
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def runs_alive() -> dict[str, list[int]]:
    """Run -> its processes here, by the mark that every process of a run carries."""
    found: dict[str, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            for entry in path.read_bytes().split(b"\0"):
                if entry.startswith(b"PHONERACK_RUN="):
                    run = entry.partition(b"=")[2].decode(errors="replace")
                    found.setdefault(run, []).append(int(path.parent.name))
    return found


def children() -> int | None:
    """How many processes Termux has now, this one's among them. Of others' an app sees none."""
    with suppress(OSError):
        own = os.getuid()
        found = 0
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                found += path.stat().st_uid == own
        return found or None
    return None


def main() -> None:
    missing, spared = missing_modules(keep_stamp="stamp" in sys.argv)
    version, problem = openmpi()
    facts = {
        "clock": time.time(),
        "python": sys.version.split()[0],
        "missing_modules": missing,
        "imports_spared": spared,
        "openmpi": version,
        "openmpi_problem": problem,
        "release": release(),
        "free_disk_bytes": free_bytes(HOME),
        "free_temporary_bytes": free_bytes(Path(os.environ.get("TMPDIR", PREFIX / "tmp"))),
        "free_memory_bytes": free_memory_bytes(),
        "interfaces": interfaces(),
        "revocations": revocations(),
        "neighbours": neighbours(),
        "host_file": host_file(),
        "runs": runs_alive(),
        "children": children(),
    }
    print(json.dumps(facts))


main()
