"""Reading a phone's kernel files: present, denied, missing, or nonsense."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from exporters.metrics import CATALOGUE, CLOCK, TEXTFILE_REFUSED, THERMAL_STATUS, Sample
from exporters.sampler import Sampler
from exporters.sources import Layout, Unavailable, all_sources, system, thermal
from exporters.sources.software import packages, release, termux
from exporters.sources.throttle import Lasting
from trainer.formats import Progress, progress_name


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("usr", "home", "proc", "sys"):
        (tmp_path / name).mkdir()
    return Layout(tmp_path / "usr", tmp_path / "home", tmp_path / "proc", tmp_path / "sys")


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def values(samples: Iterable[Sample]) -> dict[str, float]:
    return {
        " ".join((s.metric.name.removeprefix("phonerack_"), *s.labels)): s.value for s in samples
    }


def test_thermal_zones_in_degrees_and_millidegrees(layout: Layout) -> None:
    put(
        layout.sys / "class/thermal",
        {
            "thermal_zone0/type": "BIG\n",
            "thermal_zone0/temp": "41500\n",
            "thermal_zone1/type": "battery",
            "thermal_zone1/temp": "34",
            "thermal_zone10/type": "modem",
            "thermal_zone10/temp": "-274000",
            "thermal_zone11/type": "off",
            "thermal_zone11/temp": "0",
            "thermal_zone12/type": "rubbish",
            "thermal_zone12/temp": "rubbish",
            "thermal_zone13/type": "no temperature",
            "cooling_device0/type": "fan",
        },
    )
    assert values(thermal.zones(layout)) == {
        "thermal_zone_celsius 0 BIG": 41.5,
        "thermal_zone_celsius 1 battery": 34,
    }


def test_many_zones_are_cut_to_the_first(layout: Layout) -> None:
    for n in range(90):
        put(layout.sys / f"class/thermal/thermal_zone{n}", {"type": f"zone-{n}", "temp": "40000"})
    found = list(values(thermal.zones(layout)))
    assert len(found) == thermal.MOST_ZONES
    assert (
        found[-1] == f"thermal_zone_celsius {thermal.MOST_ZONES - 1} zone-{thermal.MOST_ZONES - 1}"
    )
    for n in range(5):
        put(layout.sys / f"class/thermal/thermal_zone{n}", {"temp": "0"})
    assert len(values(thermal.zones(layout))) == thermal.MOST_ZONES, "without those that are off"


def test_thermal_zones_that_are_missing_or_empty_are_unavailable(layout: Layout) -> None:
    with pytest.raises(FileNotFoundError):
        list(thermal.zones(layout))
    (layout.sys / "class/thermal").mkdir(parents=True)
    with pytest.raises(Unavailable, match="no thermal zone"):
        list(thermal.zones(layout))


def test_frequencies_by_cluster_and_the_throttled_limit(layout: Layout) -> None:
    put(
        layout.sys / "devices/system/cpu/cpufreq",
        {
            "policy0/scaling_cur_freq": "1950000",
            "policy0/scaling_max_freq": "1950000",
            "policy0/cpuinfo_max_freq": "1950000",
            "policy6/scaling_cur_freq": "<unknown>",
            "policy6/scaling_max_freq": "1690000",
            "policy6/cpuinfo_max_freq": "2730000",
        },
    )
    found = values(system.frequency(layout))
    assert found["cpu_frequency_hertz 0"] == 1.95e9
    assert found["cpu_frequency_limit_hertz 6"] == 1.69e9
    assert found["cpu_frequency_max_hertz 6"] == 2.73e9
    assert "cpu_frequency_hertz 6" not in found


def test_a_limit_below_the_maximum_is_throttling_and_its_time_adds_up(layout: Layout) -> None:
    folder = layout.sys / "devices/system/cpu/cpufreq/policy6"
    put(folder, {"scaling_max_freq": "2730000", "cpuinfo_max_freq": "2730000"})
    (read,) = [each.read for each in system.sources(layout) if each.name == "frequency"]
    name = "throttled_seconds_total frequency_limit"
    assert [values(read())[name] for _ in range(2)] == [0, 0]
    put(folder, {"scaling_max_freq": "1690000"})
    assert values(read())[name] == 0, "since when, nobody knows"
    assert values(read())[name] > 0
    put(folder, {"scaling_max_freq": "-1"})
    assert name not in values(read()), "unknown is absent"


@pytest.mark.parametrize("value", ["-1950000", "0", "9" * 30, "1.5", ""])
def test_impossible_frequencies_are_absent(layout: Layout, value: str) -> None:
    put(
        layout.sys / "devices/system/cpu/cpufreq/policy0",
        {"scaling_cur_freq": value, "cpuinfo_max_freq": "1950000"},
    )
    assert list(values(system.frequency(layout))) == ["cpu_frequency_max_hertz 0"]


def test_a_long_pause_between_looks_counts_for_nothing() -> None:
    slowed = Lasting()
    looks = [(True, 0.0), (True, 5.0), (True, 3605.0), (False, 3610.0), (True, 3615.0)]
    assert [slowed.look(*each) for each in looks] == [0, 5, 5, 10, 10]
    assert slowed.look(is_so=False, now=3600.0) == 10, "a clock that goes back takes nothing away"


def test_a_background_app_sees_fewer_cores_than_the_phone_has(layout: Layout) -> None:
    put(layout.proc, {"self/status": "Name:\tpython\nCpus_allowed:\t0f\nCpus_allowed_list:\t0-3\n"})
    put(layout.sys, {"devices/system/cpu/possible": "0-7\n"})
    assert values(system.cpuset(layout)) == {"cpus_allowed": 4, "cpus_possible": 8}


def test_cores_allowed_are_known_when_the_possible_ones_are_denied(layout: Layout) -> None:
    put(layout.proc, {"self/status": "Cpus_allowed_list:\t0-3\n"})
    assert values(system.cpuset(layout)) == {"cpus_allowed": 4}


@pytest.mark.parametrize(("ranges", "count"), [("0", 1), ("0-7", 8), ("0-3,6", 5), ("2,4,6-7", 4)])
def test_lists_of_cores_are_counted(ranges: str, count: int) -> None:
    assert system.cpu_count(ranges) == count


@pytest.mark.parametrize("ranges", ["", "x", "3-0", "0-", "0--3", "0 1"])
def test_what_is_no_list_of_cores_is_refused(ranges: str) -> None:
    with pytest.raises(Unavailable):
        system.cpu_count(ranges)


def test_memory_comes_in_bytes_and_without_what_the_kernel_does_not_tell(layout: Layout) -> None:
    put(layout.proc, {"meminfo": "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:  600 kB\n"})
    assert values(system.memory(layout)) == {
        "memory_size_bytes": 1024000,
        "memory_available_bytes": 614400,
    }


def test_memory_without_the_available_line_is_unavailable(layout: Layout) -> None:
    put(layout.proc, {"meminfo": "MemTotal:  1000 kB\n"})
    with pytest.raises(Unavailable, match="MemAvailable"):
        list(system.memory(layout))


def test_storage_is_of_the_home_folder(layout: Layout) -> None:
    found = values(system.storage(layout))
    assert 0 < found["storage_free_bytes"] <= found["storage_size_bytes"]


def test_own_processes_are_counted_by_program(layout: Layout) -> None:
    put(
        layout.proc,
        {
            "11/comm": "python3.13\n",
            "11/statm": "100 10 5",
            "12/comm": "prted\n",
            "12/statm": "100 20 5",
            "13/comm": "bash\n",
            "13/statm": "rubbish",
            "14/statm": "100 20 5",
            "self/comm": "python\n",
        },
    )
    page = os.sysconf("SC_PAGESIZE")
    found = values(system.processes(layout))
    assert (found["processes python"], found["processes_resident_bytes python"]) == (1, 10 * page)
    assert (found["processes mpi"], found["processes_resident_bytes mpi"]) == (1, 20 * page)
    assert (found["processes other"], found["processes ssh"]) == (0, 0)


def test_a_proc_that_shows_no_process_is_unavailable(layout: Layout) -> None:
    with pytest.raises(Unavailable, match="no process"):
        list(system.processes(layout))


def test_the_installed_release(layout: Layout) -> None:
    put(
        layout.home / "phonerack/current",
        {"manifest.json": '{"version": "0.1.0+abc", "target": "termux-aarch64", "files": {}}'},
    )
    assert values(release(layout)) == {"release_info 0.1.0+abc termux-aarch64": 1}


@pytest.mark.parametrize("manifest", ["[]", "{}", "null"])
def test_a_manifest_that_names_no_release_is_unavailable(layout: Layout, manifest: str) -> None:
    put(layout.home / "phonerack/current", {"manifest.json": manifest})
    with pytest.raises(Unavailable, match="manifest"):
        list(release(layout))


def test_versions_of_the_packages_that_are_installed(layout: Layout) -> None:
    put(
        layout.prefix / "var/lib/dpkg",
        {
            "status": "Package: openmpi\nStatus: install ok installed\nVersion: 5.0.11\n\n"
            "Package: python\nStatus: deinstall ok config-files\nVersion: 3.14.6\n\n"
            "Package: vim\nStatus: install ok installed\nVersion: 9.1\n"
        },
    )
    assert values(packages(layout)) == {"package_info openmpi 5.0.11": 1}


@pytest.mark.parametrize(
    "line",
    [
        'export TERMUX_VERSION="0.118.3"',
        "export TERMUX_VERSION=0.118.3",
        "export TERMUX_VERSION='0.118.3'",
    ],
)
def test_the_termux_app_by_the_file_that_it_keeps(layout: Layout, line: str) -> None:
    put(layout.prefix / "etc/termux", {"termux.env": f"export PATH=x\n{line}\n"})
    assert values(termux(layout)) == {"termux_info 0.118.3": 1}


def test_the_termux_app_by_its_environment_or_not_at_all(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERMUX_VERSION", raising=False)
    assert values(termux(layout)) == {}
    monkeypatch.setenv("TERMUX_VERSION", "0.119.0")
    assert values(termux(layout)) == {"termux_info 0.119.0": 1}


def test_dpkg_without_those_packages_is_unavailable(layout: Layout) -> None:
    put(layout.prefix / "var/lib/dpkg", {"status": ""})
    with pytest.raises(Unavailable):
        list(packages(layout))


def test_every_metric_is_given_by_a_phone_that_tells_everything(layout: Layout) -> None:
    put(
        layout.sys,
        {
            "class/thermal/thermal_zone0/type": "BIG",
            "class/thermal/thermal_zone0/temp": "41500",
            "devices/system/cpu/possible": "0-7",
            "devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1950000",
            "devices/system/cpu/cpufreq/policy0/scaling_max_freq": "1950000",
            "devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "1950000",
        },
    )
    put(
        layout.proc,
        {
            "self/status": "Cpus_allowed_list:\t0-3\n",
            "self/statm": "100 10 5",
            "meminfo": "MemTotal: 9 kB\nMemAvailable: 6 kB\nSwapTotal: 5 kB\nSwapFree: 4 kB\n",
            "11/comm": "python",
            "11/statm": "100 10 5",
        },
    )
    put(
        layout.prefix,
        {
            "etc/termux/termux.env": 'export TERMUX_VERSION="0.118.3"\n',
            "var/lib/dpkg/status": "Package: python\nStatus: install ok installed\nVersion: 3\n",
            "bin/termux-battery-status": "#!/bin/sh\necho '{"
            '"health": "GOOD", "plugged": "PLUGGED_USB", "status": "CHARGING", "temperature": 31.4,'
            '"voltage": 4000, "current": 500000, "percentage": 85}\'\n',
        },
    )
    (layout.prefix / "bin/termux-battery-status").chmod(0o755)
    progress = Progress(
        run="night",
        rank=0,
        phone="phone001",
        time=1.0,
        iteration=1,
        iterations=2,
        epoch=1,
        loss=0.5,
        accuracy=0.9,
        compute_seconds=0.1,
        exchange_seconds=0.1,
        wait_seconds=0.1,
        images=1,
    )
    put(
        layout.folder,
        {
            "current/manifest.json": '{"version": "1", "target": "t"}',
            f"runs/night/{progress_name(0)}": progress.to_json(),
            "textfile/own.prom": "shelf_celsius 21\n",
        },
    )
    sampler = Sampler(all_sources(layout))
    sampler.tick()
    assert sampler.snapshot.document()["errors"] == {}
    # Android's thermal service is asked only where the zones are denied, no file of the operator's
    # is refused here, and the clock is read at each scrape.
    others = {THERMAL_STATUS.name, TEXTFILE_REFUSED.name, CLOCK.name}
    wanted = {metric.name for metric in CATALOGUE} - others
    assert set(sampler.snapshot.document()["metrics"]) == wanted | {"shelf_celsius"}
