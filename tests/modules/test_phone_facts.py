"""phone_facts says what a phone tells, and null with the reason for what it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from survivors import gone
from termux_prefix import MODULES, Prefix, load

GETPROP = """cat <<'END'
[ro.build.version.sdk]: [31]
[ro.build.version.release]: [12]
[ro.product.model]: [SM-G975F]
[ro.product.manufacturer]: [samsung]
END"""
BATTERY = {
    "health": "GOOD",
    "percentage": 71,
    "temperature": 31.4,
    "voltage": 4050,
    "cycle": 212,
    "status": "CHARGING",
    "plugged": "PLUGGED_AC",
}
STATUS = """\
Package: openmpi
Status: install ok installed
Version: 5.0.11-0

Package: python
Status: deinstall ok config-files
Version: 3.14.6
"""


@pytest.fixture
def module() -> ModuleType:
    return load("phone_facts")


@pytest.fixture
def phone(tmp_path: Path, prefix: Prefix, module: ModuleType) -> Any:
    """A phone with everything, in folders; a test takes away what it is about."""
    proc, sys_, home = tmp_path / "proc", tmp_path / "sys", tmp_path / "home"
    files = {
        proc / "cpuinfo": "processor : 0\nFeatures : fp asimd asimddp\n",
        proc / "self/status": "Name: python\nCpus_allowed_list:\t0-3\n",
        proc / "meminfo": "MemTotal: 7688096 kB\nMemAvailable: 4021000 kB\n",
        home / "phonerack/current/manifest.json": json.dumps({"version": "0.1.0+4ec48aa1"}),
        prefix.path / "var/lib/dpkg/status": STATUS,
        sys_ / "class/thermal/thermal_zone0/temp": "41500",
        sys_ / "class/thermal/thermal_zone0/type": "cpu-0-0",
        sys_ / "class/thermal/thermal_zone1/temp": "0",
        sys_ / "devices/system/cpu/cpufreq/policy4/scaling_cur_freq": "1053000",
        sys_ / "devices/system/cpu/cpufreq/policy4/scaling_max_freq": "2314000",
    }
    for number in range(8):
        cpu = sys_ / f"devices/system/cpu/cpu{number}"
        files[cpu / "cpufreq/cpuinfo_max_freq"] = "1950000" if number < 4 else "2730000"
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (prefix.path / "tmp").mkdir()
    prefix.script("getprop", GETPROP)
    prefix.script("termux-battery-status", f"echo '{json.dumps(BATTERY)}'")
    return module.Phone(prefix.path, home, proc, sys_, now=time.time())


@pytest.fixture
def gather(phone: Any, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TMPDIR", str(phone.prefix / "tmp"))
    return module.gather


def test_a_phone_that_tells_everything(gather, phone):
    facts = gather(phone)

    assert facts["android"]["api_level"] == 31
    assert facts["android"]["model"] == "SM-G975F"
    cores = facts["processor"]["cores"]
    assert [core["max_hertz"] for core in cores] == [1_950_000_000] * 4 + [2_730_000_000] * 4
    assert facts["processor"]["features"] == ["asimd", "asimddp", "fp"]
    assert facts["processor"]["cpus_allowed"] == "0-3"
    assert facts["memory"]["total_bytes"] == 7_688_096 * 1024
    assert facts["storage"]["free_bytes"] > 0
    assert facts["battery"] == {
        "health": "GOOD",
        "cycles": 212,
        "charge_ratio": 0.71,
        "temperature_celsius": 31.4,
        "millivolts": 4050,
        "status": "CHARGING",
        "plugged": "PLUGGED_AC",
    }
    zones = facts["sensors"]["thermal_zones"]
    assert zones == [{"name": "thermal_zone0", "type": "cpu-0-0", "celsius": 41.5}]
    (policy,) = facts["sensors"]["frequency_policies"]
    assert policy == {"name": "policy4", "hertz": 1_053_000_000, "limit_hertz": 2_314_000_000}
    assert facts["versions"]["release"] == "0.1.0+4ec48aa1"
    assert facts["versions"]["packages"]["openmpi"] == "5.0.11-0"
    assert facts["versions"]["packages"]["python"] is None
    assert -1 < facts["clock"]["offset_seconds"] < 60


def test_a_phone_that_tells_nothing_gives_null_and_reasons_never_0(gather, phone, tmp_path):
    bare = phone._replace(
        prefix=tmp_path / "nowhere", home=tmp_path / "none", proc=tmp_path / "a", sys=tmp_path / "b"
    )

    facts = gather(bare)

    for name in ("android", "memory", "storage", "battery", "processes"):
        assert facts[name] is None
        assert facts["unavailable"][name]
    assert facts["processor"]["cores"] is None
    assert facts["sensors"] == {"thermal_zones": None, "frequency_policies": None}
    assert 0 not in facts["versions"].values()


def test_a_denied_folder_is_a_reason(gather, phone, tmp_path):
    """Permissions do not bind root, so a file stands where Android denies the folder."""
    thermal = tmp_path / "denied"
    thermal.mkdir()
    (thermal / "class").mkdir()
    (thermal / "class/thermal").write_text("")

    facts = gather(phone._replace(sys=thermal))

    assert facts["sensors"]["thermal_zones"] is None
    assert "Not a directory" in facts["unavailable"]["thermal_zones"]


THERMAL_SERVICE = """\
Thermal Status: 0
Cached temperatures:
\tTemperature{mValue=25.0, mType=3, mName=SKIN, mStatus=0}
HAL Ready: true
Current temperatures from HAL:
\tTemperature{mValue=38.2, mType=3, mName=SKIN, mStatus=0}
\tTemperature{mValue=0.0, mType=4, mName=USB, mStatus=0}
\tTemperature{mValue=4.1, mType=6, mName=VBAT, mStatus=0}
Current cooling devices from HAL:
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (THERMAL_SERVICE, None),
        (THERMAL_SERVICE.replace("Ready: true", "Ready: false"), "HAL is not ready"),
        ("Permission Denial: can't dump thermalservice from pid=1", "not permitted"),
        (THERMAL_SERVICE.replace("SKIN", "").replace("38.2", "-99.9"), "no sensor"),
    ],
)
def test_where_zones_are_denied_the_thermal_service_tells(gather, phone, prefix, said, reason):
    """By its live section; the cached one is old. What it does not tell is null, never 0."""
    (phone.prefix / "said").write_text(said)
    prefix.script("dumpsys", f"[ $1 = thermalservice ] && cat {phone.prefix}/said")
    program = phone.prefix / "bin/dumpsys"

    facts = gather(phone._replace(sys=phone.sys / "none", dumpsys=program))

    if reason is None:
        zones = facts["sensors"]["thermal_zones"]
        assert zones == [{"name": "SKIN", "type": "skin", "celsius": 38.2}]
    else:
        assert facts["sensors"]["thermal_zones"] is None
        assert reason in facts["unavailable"]["thermal_zones"]


def test_what_android_does_not_know_of_the_battery_is_null(gather, phone, prefix):
    said = {"percentage": -1, "temperature": -2147483648, "voltage": 0, "cycle": -1}
    prefix.script("termux-battery-status", f"echo '{json.dumps(said)}'")

    battery = gather(phone)["battery"]

    assert set(battery.values()) == {None}


def test_a_battery_call_that_hangs_ends_with_all_that_it_started(
    gather, module, phone, prefix, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "LIMIT_SECONDS", 0.5)
    prefix.script("termux-battery-status", f"sleep 1000 & echo $! >{tmp_path}/child; wait")

    facts = gather(phone)

    assert facts["battery"] is None
    assert "no answer within 0.5 s" in facts["unavailable"]["battery"]
    assert gone(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("said", ["[]", "oops", "[" * 100_000, ""])
def test_nonsense_from_the_battery_is_a_reason(gather, phone, prefix, tmp_path, said):
    (tmp_path / "said").write_text(said)
    prefix.script("termux-battery-status", f"cat {tmp_path}/said")

    facts = gather(phone)

    assert facts["battery"] is None
    assert "no JSON object" in facts["unavailable"]["battery"]


def test_a_program_that_is_missing_or_fails_is_a_reason(gather, phone, prefix):
    prefix.script("termux-battery-status", "exit 3")
    (prefix.path / "bin/getprop").unlink()

    unavailable = gather(phone)["unavailable"]

    assert unavailable["battery"] == "termux-battery-status: ended with 3"
    assert unavailable["android"].endswith("bin/getprop: No such file or directory")


def test_a_list_of_cores_that_is_none_is_a_reason(gather, phone):
    (phone.proc / "self/status").write_text("Cpus_allowed_list:\tall\n")

    facts = gather(phone)

    assert facts["processor"]["cpus_allowed"] is None
    assert "no Cpus_allowed_list" in facts["unavailable"]["cpuset"]


def test_as_a_module_it_gives_facts_and_changes_nothing(run_module, phone, monkeypatch):
    monkeypatch.setenv("HOME", str(phone.home))

    result = run_module("phone_facts", now=time.time())

    assert result["changed"] is False
    assert result["ansible_facts"]["phone"]["android"]["model"] == "SM-G975F"


def test_as_a_program_it_needs_no_ansible(phone):
    environment = {**os.environ, "PREFIX": str(phone.prefix), "HOME": str(phone.home)}
    program = (MODULES / "phone_facts.py").read_text()
    # -S: without site-packages, as on a phone.
    done = subprocess.run(
        [sys.executable, "-S", "-", "--plain", str(time.time() - 90)],
        input=program,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    facts = json.loads(done.stdout)

    assert facts["android"]["api_level"] == 31
    assert 89 < facts["clock"]["offset_seconds"] < 150
