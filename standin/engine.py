"""Podman, thinly: start, stop, freeze and limit the containers of stand-in racks (rootful)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from standin.commands import Command, CommandError, run
from standin.errors import StandinError

RACK_LABEL = "phonerack.rack"
HOST_LABEL = "phonerack.host"
FOLDER_LABEL = "phonerack.folder"
IMAGE_PREFIX = "localhost/phonerack-standin-"

TRIES, PAUSE_SECONDS = 6, 5.0
"""For what podman gives up too early on a busy machine."""

type State = Literal["running", "paused", "dead"]


@dataclass(frozen=True, slots=True)
class Container:
    """A container as found. `host` is the phone's name or `services`; `pid` is 0 when dead."""

    name: str
    rack: str
    host: str
    folder: str
    image: str
    state: State
    pid: int


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """At most `quota_microseconds` of processor time in each `period_microseconds`."""

    quota_microseconds: int
    period_microseconds: int

    @property
    def options(self) -> Command:
        return (
            f"--cpu-period={self.period_microseconds}",
            f"--cpu-quota={self.quota_microseconds}",
        )


@dataclass(frozen=True, slots=True)
class Spec:
    """What a container is started with.

    `mounts` maps a path inside to one outside, read-only; `volumes` one inside to a volume's name.
    """

    name: str
    image: str
    rack: str
    host: str
    folder: str
    hostname: str
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    cpu: CpuLimit | None = None

    @property
    def pid_file(self) -> Path:
        return Path(self.folder) / "standin" / "pids" / self.host


@cache
def runtime_options() -> Command:
    """`--runtime runc` where crun, podman's usual choice, refuses the host's cgroups.

    crun wants cgroup v2 alone; a host with v1, or with v1 and v2 side by side, needs runc.
    """
    host = json.loads(run(("podman", "info", "--format", "json")))["host"]
    if host["cgroupVersion"] == "v2" or host["ociRuntime"]["name"] == "runc":
        return ()
    if shutil.which("runc") is None:
        raise StandinError("this host has cgroup v1, which needs runc: run `apt-get install runc`")
    return ("--runtime", "runc")


def run_command(spec: Spec) -> Command:
    """The podman command line, after `podman`, that creates and starts `spec`."""
    labels = {RACK_LABEL: spec.rack, HOST_LABEL: spec.host, FOLDER_LABEL: spec.folder}
    return (
        "run",
        "--detach",
        "--pull=never",
        f"--name={spec.name}",
        f"--hostname={spec.hostname}",
        f"--pidfile={spec.pid_file}",
        # Podman's own default is higher than what some hosts let root set.
        "--ulimit=nofile=4096:4096",
        "--ulimit=nproc=4096:4096",
        *(f"--label={key}={value}" for key, value in labels.items()),
        *(f"--env={key}={value}" for key, value in spec.environment.items()),
        *(f"--volume={outside}:{inside}:ro" for inside, outside in spec.mounts.items()),
        *(f"--volume={volume}:{inside}:nocopy" for inside, volume in spec.volumes.items()),
        *(spec.cpu.options if spec.cpu else ()),
        *spec.options,
        spec.image,
    )


def start_new(spec: Spec) -> Container:
    """Create and start `spec`; a file tells its first process, where podman would take long."""
    spec.pid_file.parent.mkdir(parents=True, exist_ok=True)
    run(("podman", *runtime_options(), *run_command(spec)))
    pid = int(spec.pid_file.read_text())
    return Container(spec.name, spec.rack, spec.host, spec.folder, spec.image, "running", pid)


def containers(rack: str | None = None) -> list[Container]:
    """The containers of one stand-in rack, else of all."""
    label = f"{RACK_LABEL}={rack}" if rack else RACK_LABEL
    listing = run(("podman", "ps", "--all", f"--filter=label={label}", "--format=json"))
    return [_container(item) for item in json.loads(listing)]


def _container(item: dict[str, Any]) -> Container:
    name, labels = item["Names"][0], item["Labels"]
    # Every other state (created, exited, stopping, …) is one of a phone that does nothing.
    state: State = item["State"] if item["State"] in ("running", "paused") else "dead"
    return Container(
        name=name,
        rack=labels[RACK_LABEL],
        host=labels.get(HOST_LABEL, name),
        folder=labels.get(FOLDER_LABEL, ""),
        image=item["Image"],
        state=state,
        pid=0 if state == "dead" else item["Pid"],
    )


def container(name: str) -> Container:
    """One container by its name. Raises StandinError when there is none."""
    listing = run(("podman", "ps", "--all", f"--filter=name=^{name}$", "--format=json"))
    found = json.loads(listing)
    if not found:
        raise StandinError(f"no container {name}: `fleetctl standin up` makes it")
    return _container(found[0])


def cgroup_paths(rack: str) -> dict[str, str]:
    """The control group of each host of a rack that runs, as a path below the mount points."""
    found = {container.name: container.host for container in containers(rack) if container.pid}
    if not found:
        return {}
    layout = "--format={{.Name}} {{.State.CgroupPath}}"
    lines = run(("podman", "inspect", "--type=container", layout, *found)).splitlines()
    paths = (line.split(" ", 1) for line in lines)
    return {found[name]: path for name, path in paths if path}


def start(name: str) -> None:
    run(("podman", "start", name))


def kill(name: str) -> None:
    """Power cut: SIGKILL to all of it, also when it is frozen; whatever ended first is fine."""
    try:
        run(("podman", "kill", "--signal=KILL", name))
    except CommandError as error:
        if "can only kill running containers" not in str(error):
            raise
    run(("podman", "wait", name))


def freeze(name: str) -> None:
    """Stop all of its processes at once; the kernel's freezer may fail while they are starting."""
    _persistently(("podman", "pause", name))


def thaw(name: str) -> None:
    run(("podman", "unpause", name))


def restart(name: str) -> None:
    run(("podman", "restart", "--time=0", name))


def limit_cpu(name: str, limit: CpuLimit) -> None:
    """Podman does not keep an update over a restart: say it again after each start."""
    run(("podman", "update", *limit.options, name))


def remove(names: Iterable[str]) -> None:
    """Remove containers, whatever they are doing; those that are gone already are no error.

    Killed processes may take longer to die than podman waits.
    """
    if wanted := tuple(names):
        _persistently(("podman", "rm", "--force", "--ignore", "--volumes", "--time=0", *wanted))


def _persistently(command: Command) -> None:
    for left in reversed(range(TRIES)):
        try:
            run(command)
            return
        except CommandError:
            if not left:
                raise
            time.sleep(PAUSE_SECONDS)


def make_network(rack: str, name: str) -> None:
    """A network of podman's own kind, with a way out; one that is there already is kept."""
    if name not in _networks(name):
        label = f"--label={RACK_LABEL}={rack}"
        run(("podman", "network", "create", "--disable-dns", label, name))


def remove_network(name: str) -> None:
    """Remove the network with its bridge; one that is gone already is no error."""
    if name in _networks(name):
        run(("podman", "network", "rm", "--force", name))


@contextmanager
def mounted_image(image: str) -> Iterator[Path]:
    """The files of an image, for reading."""
    # It is never started: the command only has to be there.
    container = run(("podman", "create", *runtime_options(), image, "none")).strip()
    try:
        yield Path(run(("podman", "mount", container)).strip())
    finally:
        run(("podman", "rm", "--force", container))


def make_volume(rack: str, name: str, file: Path, filesystem: str, options: str) -> None:
    """A volume that is the file system in `file`; podman mounts it while a container uses it."""
    how = (f"--opt=type={filesystem}", f"--opt=device={file}", f"--opt=o={options}")
    run(("podman", "volume", "create", f"--label={RACK_LABEL}={rack}", *how, name))


def remove_volumes(rack: str, wanted: Collection[str] | None = None) -> None:
    """Remove the volumes of a rack whose containers are gone, all or those of `wanted` names."""
    label = f"--filter=label={RACK_LABEL}={rack}"
    names = run(("podman", "volume", "ls", label, "--quiet")).split()
    if going := [name for name in names if wanted is None or name in wanted]:
        run(("podman", "volume", "rm", "--force", *going))


def _networks(name: str) -> list[str]:
    listing = run(("podman", "network", "ls", f"--filter=name=^{name}$", "--format={{.Name}}"))
    return listing.split()
