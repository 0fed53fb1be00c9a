#!/usr/bin/python
"""What an unrooted Android phone says about itself.

Also a program: `python - --plain NOW < phone_facts.py` prints the same as JSON, so that fleetctl
asks over its own connection what Ansible asks. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

DOCUMENTATION = r"""
module: phone_facts
short_description: Facts about a phone
description:
  - What Ansible's own facts do not know on Android, from what an app may read. The serial comes
    from enrolment and the MAC from the lease or the switch, since no app can read them.
  - A source that cannot be read gives C(null), never 0, and its reason stands in C(unavailable).
  - Programs of the phone have 5 s; then their whole process group is killed.
options:
  now:
    description: The controller's time in seconds since the epoch, for the clock's offset.
    type: float
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
author: phonerack
"""

EXAMPLES = r"""
- name: Ask the phones about themselves
  phone_facts:
    now: "{{ now(utc=true).timestamp() }}"
"""

RETURN = r"""
ansible_facts:
  description:
    - C(phone) with C(android), C(processor), C(memory), C(storage), C(battery), C(sensors),
      C(clock), C(versions), C(processes) and C(unavailable). Units stand in the names.
  returned: success
  type: dict
"""

DEFAULT_FILES = "/data/data/com.termux/files"
LIMIT_SECONDS = 5.0
MOST_BYTES = 1 << 20
PACKAGES = (
    *("libopenblas", "openmpi", "openssh", "python", "python-numpy", "python-torch"),
    *("python-torchvision", "termux-api", "termux-services"),
)
# By Android's TemperatureType; those without a name are voltage, current and charge.
SENSORS = ("cpu", "gpu", "battery", "skin", "usb", "amplifier", "", "", "", "npu")


class Unavailable(Exception):
    """This phone does not tell; the message says why."""


def why(problem: Exception) -> str:
    is_file = isinstance(problem, OSError)
    return f"{problem.filename}: {problem.strerror}" if is_file else str(problem)


class Phone(NamedTuple):
    """Where things lie on a phone, and the controller's time."""

    prefix: Path
    home: Path
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dumpsys: Path = Path("/system/bin/dumpsys")
    now: float | None = None

    @classmethod
    def here(cls, now: float | None) -> Phone:
        prefix = os.environ.get("PREFIX") or f"{DEFAULT_FILES}/usr"
        home = os.environ.get("HOME") or f"{DEFAULT_FILES}/home"
        return cls(Path(prefix), Path(home), now=now)

    def run(self, program: str | Path, *words: str) -> str:
        """Standard output of a program of the prefix or by path. Raises Unavailable, OSError."""
        process = subprocess.Popen(
            [self.prefix / "bin" / program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{program}: no answer within {LIMIT_SECONDS:g} s") from None
        finally:
            # The group, not only the program: what it started would keep the pipe and the radio.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode != 0:
            raise Unavailable(f"{program}: ended with {process.returncode}")
        return out[:MOST_BYTES].decode(errors="replace")


def read(path: Path) -> str:
    """Text of a file of the kernel. Raises OSError."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES).decode(errors="replace").strip()


def number(path: Path) -> int | None:
    """The whole number in a file, None where there is none."""
    try:
        return int(read(path))
    except (OSError, ValueError):
        return None


def numbered(folder: Path, stem: str) -> list[Path]:
    """`folder`'s entries named stem and a number, by number. Raises OSError if it is denied."""
    names = [path.name.removeprefix(stem) for path in folder.iterdir()]
    order = sorted(int(name) for name in names if name.isdecimal())
    return [folder / f"{stem}{place}" for place in order if (folder / f"{stem}{place}").exists()]


def android(phone: Phone) -> dict[str, Any]:
    said = dict(re.findall(r"^\[([^]]*)\]: \[([^]]*)\]\s*$", phone.run("getprop"), re.MULTILINE))
    level = said.get("ro.build.version.sdk", "")
    return {
        "api_level": int(level) if level.isdecimal() else None,
        "release": said.get("ro.build.version.release"),
        "manufacturer": said.get("ro.product.manufacturer"),
        "model": said.get("ro.product.model"),
        "board": said.get("ro.board.platform"),
    }


def hertz(path: Path) -> int | None:
    """A frequency, of which the kernel tells kilohertz."""
    kilohertz = number(path)
    return kilohertz * 1000 if kilohertz else None


def cores(phone: Phone) -> list[dict[str, Any]]:
    """The cores with what each can do."""
    cpus = phone.sys / "devices/system/cpu"
    found = [
        {
            "number": int(folder.name.removeprefix("cpu")),
            "max_hertz": hertz(folder / "cpufreq/cpuinfo_max_freq"),
            "capacity": number(folder / "cpu_capacity"),
        }
        for folder in numbered(cpus, "cpu")
    ]
    if not found:
        raise Unavailable(f"{cpus}: no core can be seen")
    return found


def cpu_features(phone: Phone) -> list[str]:
    text = read(phone.proc / "cpuinfo")
    match = re.search(r"^(?:Features|flags)\s*:\s*(.+)$", text, re.MULTILINE)
    if not match:
        raise Unavailable("no features in /proc/cpuinfo")
    return sorted(match[1].split())


def cpus_allowed(phone: Phone) -> str:
    """Android keeps a background app off the fast cores."""
    text = read(phone.proc / "self/status")
    allowed = re.search(r"^Cpus_allowed_list:\s*(\d+(?:[-,]\d+)*)$", text, re.MULTILINE)
    if not allowed:
        raise Unavailable("no Cpus_allowed_list in /proc/self/status")
    return allowed[1]


def memory(phone: Phone) -> dict[str, int | None]:
    text = read(phone.proc / "meminfo")
    kibibytes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
    names = {
        "total_bytes": "MemTotal",
        "available_bytes": "MemAvailable",
        "swap_total_bytes": "SwapTotal",
        "swap_free_bytes": "SwapFree",
    }
    return {name: int(kibibytes[k]) * 1024 if k in kibibytes else None for name, k in names.items()}


def storage(phone: Phone) -> dict[str, int | None]:
    def free(path: Path) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    total, left = free(phone.home)
    temporary = free(Path(os.environ.get("TMPDIR") or phone.prefix / "tmp"))[1]
    return {"total_bytes": total, "free_bytes": left, "temporary_free_bytes": temporary}


def battery(phone: Phone) -> dict[str, Any]:
    text = phone.run("termux-battery-status")
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise Unavailable(f"termux-battery-status: no JSON object: {text[:40]!r}")

    def value(key: str, low: float, high: float) -> float | None:
        """Android gives -1 or its smallest number for what it does not know."""
        found = status.get(key)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return None
        return found if low <= found <= high else None

    percent = value("percentage", 0, 100)
    return {
        "health": status.get("health"),
        "cycles": value("cycle", 0, 100_000),
        "charge_ratio": None if percent is None else percent / 100,
        "temperature_celsius": value("temperature", -60, 150),
        "millivolts": value("voltage", 1, 100_000),
        "status": status.get("status"),
        "plugged": status.get("plugged"),
    }


def thermal_zones(phone: Phone) -> list[dict[str, Any]]:
    """The kernel's zones where the vendor shows them, else what Android's thermal service tells."""
    try:
        return kernel_zones(phone)
    except (Unavailable, OSError) as denied:
        try:
            return live_temperatures(phone.run(phone.dumpsys, "thermalservice"))
        except (Unavailable, OSError) as reason:
            raise Unavailable(f"{why(denied)}; {why(reason)}") from None


def kernel_zones(phone: Phone) -> list[dict[str, Any]]:
    """Readable zones; some vendors give millidegrees, some degrees."""
    found = []
    for folder in numbered(phone.sys / "class/thermal", "thermal_zone"):
        value = number(folder / "temp")
        celsius = value / 1000 if value and abs(value) >= 200 else float(value or 0)
        if is_measured(celsius):
            try:
                kind = read(folder / "type")
            except OSError:
                kind = "unknown"
            found.append({"name": folder.name, "type": kind, "celsius": celsius})
    if not found:
        raise Unavailable("no thermal zone can be read")
    return found


def is_measured(celsius: float) -> bool:
    return celsius != 0 and -40 < celsius < 150  # a sensor that is off says 0 or the impossible


def live_temperatures(said: str) -> list[dict[str, Any]]:
    """Out of `dumpsys thermalservice`, which tells old values too. Raises Unavailable."""
    if "Permission Denial" in said:
        raise Unavailable("dumpsys thermalservice: not permitted")
    if not re.search(r"^\s*HAL Ready: true\s*$", said, re.MULTILINE):
        raise Unavailable("dumpsys thermalservice: there is none, or its HAL is not ready")
    live = re.search(
        r"^\s*Current temperatures from HAL:\n((?:\s*Temperature\{.*\n?)*)", said, re.MULTILINE
    )
    pattern = r"mValue=(-?\d+(?:\.\d+)?), mType=(-?\d+), mName=([^,}]+)"
    kinds = {str(number): kind for number, kind in enumerate(SENSORS)}
    found = [
        {"name": name, "type": kinds.get(kind, "unknown"), "celsius": float(value)}
        for value, kind, name in re.findall(pattern, live[1] if live else "")
        if kinds.get(kind) != "" and is_measured(float(value))
    ]
    if not found:
        raise Unavailable("dumpsys thermalservice: no sensor gives a temperature")
    return found


def frequency_policies(phone: Phone) -> list[dict[str, Any]]:
    found = []
    for folder in numbered(phone.sys / "devices/system/cpu/cpufreq", "policy"):
        now, limit = hertz(folder / "scaling_cur_freq"), hertz(folder / "scaling_max_freq")
        if now or limit:
            found.append({"name": folder.name, "hertz": now, "limit_hertz": limit})
    if not found:
        raise Unavailable("no frequency can be read")
    return found


def packages(phone: Phone) -> dict[str, str | None]:
    """Versions from dpkg's own record, in which each package is a paragraph."""
    found: dict[str, str | None] = dict.fromkeys(PACKAGES)
    text = (phone.prefix / "var/lib/dpkg/status").read_text(errors="replace")
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Package") in found and fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields.get("Version")
    return found


def release(phone: Phone) -> str:
    path = phone.home / "phonerack/current/manifest.json"
    try:
        return str(json.loads(read(path))["version"])
    except (ValueError, LookupError, TypeError):
        raise Unavailable(f"{path} names no version") from None


def torch(_: Phone) -> str:
    """Its version by what was installed: importing it takes seconds."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise Unavailable("torch is not installed") from None


def processes(phone: Phone) -> int:
    """The app's own; Android 12 kills the oldest above 32 child processes."""
    count = 0
    for folder in phone.proc.iterdir():
        with contextlib.suppress(OSError):
            count += folder.name.isdecimal() and folder.stat().st_uid == os.getuid()
    return count


def gather(phone: Phone) -> dict[str, Any]:
    """All facts; what cannot be known is None and has its reason in `unavailable`."""
    clock = time.time()
    unavailable: dict[str, str] = {}

    def ask(name: str, source: Callable[[Phone], Any]) -> Any:
        try:
            return source(phone)
        except (Unavailable, OSError) as reason:
            unavailable[name] = why(reason)
        except Exception as problem:  # a phone that surprises one source must not hide the others
            unavailable[name] = f"{type(problem).__name__}: {problem}"
        return None

    return {
        "android": ask("android", android),
        "processor": {
            "machine": platform.machine(),
            "kernel": platform.release(),
            "cores": ask("cores", cores),
            "features": ask("features", cpu_features),
            "cpus_allowed": ask("cpuset", cpus_allowed),
        },
        "memory": ask("memory", memory),
        "storage": ask("storage", storage),
        "battery": ask("battery", battery),
        "sensors": {
            "thermal_zones": ask("thermal_zones", thermal_zones),
            "frequency_policies": ask("frequency_policies", frequency_policies),
        },
        "clock": {
            "time": clock,
            "offset_seconds": None if phone.now is None else clock - phone.now,
            "uptime_seconds": time.clock_gettime(time.CLOCK_BOOTTIME),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": ask("torch", torch),
            "release": ask("release", release),
            "packages": ask("packages", packages),
        },
        "processes": ask("processes", processes),
        "unavailable": unavailable,
    }


def main() -> None:
    if sys.argv[1:2] == ["--plain"]:
        print(json.dumps(gather(Phone.here(float(sys.argv[2])))))
        return
    # Not at the top: as a plain program it runs where there is no Ansible.
    from ansible.module_utils.basic import AnsibleModule

    module = AnsibleModule(argument_spec={"now": {"type": "float"}}, supports_check_mode=True)
    facts = gather(Phone.here(module.params["now"]))
    module.exit_json(changed=False, ansible_facts={"phone": facts})


if __name__ == "__main__":
    main()
