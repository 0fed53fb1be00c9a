"""What launch leaves on phones and does there: paths, and the shell that runs on them.

Every process of a run carries PHONERACK_RUN=<run> in its environment, so it is found through
/proc, which shows an Android app its own processes only. Each attempt of a run has a folder of its
own: where `run` is asked for, it is the attempt's name (`digits-1`, `digits-1.2`, …), and all of
them bear the run's mark.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from fleetctl.rack.model import OpenMpiSeries
from fleetctl.rack.variables import TERMUX_HOME, TERMUX_PREFIX

RUNS = f"{TERMUX_HOME}/phonerack/runs"
DATA = f"{TERMUX_HOME}/phonerack/data"
RELEASES = f"{TERMUX_HOME}/phonerack/releases"
CURRENT = f"{TERMUX_HOME}/phonerack/current"
"""Leads to the release that the phone has."""
PYTHON = f"{TERMUX_PREFIX}/bin/python"
SHELL = f"{TERMUX_PREFIX}/bin/sh"

OWN_FILES = frozenset(
    {
        *("plan.json", "hostfile", "start.sh", "rank.sh", "resume"),
        *("mpirun.log", "mpirun.pid", "mpirun.rc", "progress.jsonl", "checkpoints", "finish"),
    }
)
"""What launch and the trainer write into a run's folder; a user's file may not be named so."""


def folder(run: str, *, stage: bool = False) -> str:
    """The run's folder, at the same path on every phone; or that of the staging before it, which
    is started in the same way and bears the run's mark."""
    return f"{RUNS}/{run}.stage" if stage else f"{RUNS}/{run}"


def run_of(attempt: str) -> str:
    """The run that an attempt belongs to: the mark of all its processes."""
    return re.sub(r"(-\d+)\.\d+$", r"\1", attempt)


def start_script(
    run: str, mpirun: Sequence[str], series: OpenMpiSeries, head: str, *, stage: bool = False
) -> str:
    """`start.sh`: starts the run on the head phone; a person can read and repeat it.

    `head` is that phone's address.
    """
    line = shlex.join(mpirun)
    return f"""#!{SHELL}
# Rendered by `fleetctl launch`: run {run} starts here. mpirun's pid and exit code stay beside it.
cd {folder(run, stage=stage)} || exit 1
exec >mpirun.log 2>&1 </dev/null
export PHONERACK_RUN={run_of(run)}
start() {{
  # Where rank 0 of torch.distributed will listen: what the last run's rank did may still linger.
  MASTER_PORT=$({PYTHON} -c {shlex.quote(_FREE_PORT)} {head})
  export MASTER_PORT
  # Another MPI's mpirun would start every rank as a world of its own.
  case $(mpirun --version 2>&1) in
  *"(Open MPI) {series}."*) exec {line} ;;
  esac
  echo "$(command -v mpirun || echo mpirun) is not that of Open MPI {series}, but of" \\
    "$(mpirun --version 2>&1 | head -n 1); remove the other MPI, then site.yml -t openmpi"
  exit 1
}}
start &
echo $! >mpirun.pid
wait $!
echo $? >mpirun.rc.part
mv mpirun.rc.part mpirun.rc
"""


def start_command(run: str, *, stage: bool = False) -> str:
    """Runs start.sh in a session of its own, which the end of the ssh connection leaves alone."""
    return (
        f"cd {folder(run, stage=stage)} && rm -f mpirun.rc mpirun.pid && "
        # Marked from its first moment, so that a sweep finds a start that was broken off.
        f"PHONERACK_RUN={run_of(run)} {PYTHON} -c {shlex.quote(_DETACH)} {SHELL} start.sh "
        "</dev/null >mpirun.log 2>&1 && "
        "i=0; until [ -s mpirun.pid ]; do i=$((i+1)); [ $i -gt 50 ] && exit 1; sleep 0.1; done; "
        "cat mpirun.pid"
    )


_FREE_PORT = """import random, socket, sys
for port in random.sample(range(20000, 30000), 100):  # below what Linux gives away by itself
    with socket.socket() as taken:
        try:
            taken.bind((sys.argv[1], port))
        except OSError:
            continue
        print(port)
        break"""

_DETACH = (
    "import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\nos.execv(sys.argv[1], sys.argv[1:])"
)


def rank_script(
    run: str, phones: Sequence[str], addresses: Sequence[str], interfaces: Sequence[str | None],
    *, told: bool,
) -> str:  # fmt: skip
    """`rank.sh`: one rank of a run, on whichever phone. Gives torch.distributed its variables.

    `told`: the program always leaves the final record by which the run is judged, as the trainer
    does. Any other may not; then this writes it, from the exit code.
    """
    cases = "\n".join(
        f"{rank}) phone={phone} interface={interface or ''} ;;"
        for rank, (phone, interface) in enumerate(zip(phones, interfaces, strict=True))
    )
    return f"""#!{SHELL}
# Rendered by `fleetctl launch`: one rank of run {run}.
if [ -z "$OMPI_COMM_WORLD_RANK" ] || [ "$OMPI_COMM_WORLD_SIZE" != {len(phones)} ]; then
  echo "this rank was not started by Open MPI's mpirun as one of {len(phones)}" \\
    "(rank '$OMPI_COMM_WORLD_RANK' of '$OMPI_COMM_WORLD_SIZE'; MPICH says '$PMI_RANK')" >&2
  exit 1
fi
export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE={len(phones)} LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
export MASTER_ADDR={addresses[0]} MASTER_PORT
# Not every build of torch has libuv, which its store asks for unless told otherwise.
export USE_LIBUV=0
# Threads of OpenBLAS under each of torch's make a step several times slower.
export OPENBLAS_NUM_THREADS=${{OPENBLAS_NUM_THREADS:-1}}
case $RANK in
{cases}
esac
# gloo would advertise 127.0.0.1, since every phone's host name is localhost.
[ -n "$interface" ] && export GLOO_SOCKET_IFNAME=$interface
{_EXECUTE if told else _leave_word(run)}"""


_EXECUTE = 'exec "$@"\n'


def _leave_word(run: str) -> str:
    """Shell: runs the rank's program, and writes its final record unless it has done so."""
    return f"""\
"$@"
code=$?
[ -e "rank-$RANK.final.json" ] && exit $code
if [ $code -eq 0 ]; then status=done reason=null; else
  status=failed reason="\\"exit code $code\\""
fi
printf '{{"version": 1, "run": "{run}", "rank": %s, "phone": "%s", "status": "%s", "reason": %s, \
"iteration": 0, "test_accuracy": null, "parameters_sha256": null}}\\n' \
  "$RANK" "$phone" "$status" "$reason" >.final.part && mv .final.part "rank-$RANK.final.json"
exit $code
"""


def store(what: str) -> str:
    """Runs the phone's own bookkeeping of data sets (trainer.store), which reads an order."""
    return f"PYTHONPATH={CURRENT}/python {PYTHON} -m trainer.store {what}"


def data_part(name: str, manifest_sha256: str) -> str:
    """Where a version of a data set lies until all of it is there; as trainer.store has it."""
    return f"{DATA}/.{name}.{manifest_sha256[:16]}.part"


def remove_data(name: str) -> str:
    """Of every version, in its place and on its way; that no other's name begins like it is the
    length of a checksum's part."""
    there, version = shlex.quote(name), "?" * 16
    return (
        f"cd {DATA} 2>/dev/null || exit 0; "
        f"rm -rf -- {there} .{there}.{version}.part .{there}.{version}.old"
    )


def staged_bytes(run: str) -> str:
    """Shell on any phone: how many bytes its rank of a staging has got."""
    return f"cat {folder(run, stage=True)}/rank-*.bytes 2>/dev/null || true"


def remove_stage(run: str) -> str:
    return f"rm -rf {folder(run, stage=True)}"


def list_runs() -> str:
    """Shell on any phone: its own time, then a line for each folder of a run: when it last
    changed, and its name."""
    return (
        f"date +%s; cd {RUNS} 2>/dev/null || exit 0; "
        'for d in * .[!.]*; do [ -d "$d" ] && stat -c \'%Y %n\' "$d"; done; true'
    )


def remove_runs(folders: Sequence[str]) -> str:
    """Shell on any phone: those folders, by their names, are gone."""
    return f"cd {RUNS} 2>/dev/null || exit 0; rm -rf -- {shlex.join(folders)}"


def _find(run: str) -> str:
    """Shell: `pids` prints the processes of the run; -z makes grep read NUL-ended entries."""
    mark = f"PHONERACK_RUN={run_of(run)}"
    return (
        f"pids() {{ grep -lszxF {mark} /proc/[0-9]*/environ | cut -d/ -f3; }}; "
        f"alive() {{ grep -qszxF {mark} /proc/$pid/environ; }}; "
    )


def wait_for_end(run: str, *, stage: bool = False) -> str:
    """Shell on the head phone: lasts as long as mpirun; prints its exit code, or `vanished`."""
    return (
        f"cd {folder(run, stage=stage)} || {{ echo vanished; exit; }}; {_find(run)}"
        "pid=$(cat mpirun.pid 2>/dev/null || echo none); "
        # A closed connection ends sshd, and with it this loop.
        "while [ ! -e mpirun.rc ] && alive; do kill -0 $PPID || exit; sleep 0.5; done; "
        # mpirun is gone; the shell that waits for it may need a while on a busy phone to say how.
        "n=0; while [ ! -e mpirun.rc ] && [ $n -lt 40 ]; do n=$((n+1)); sleep 0.1; done; "
        "cat mpirun.rc 2>/dev/null || echo vanished"
    )


def is_alive(run: str) -> str:
    """Shell on the head phone: `running`, or how mpirun ended, or `vanished`."""
    return (
        f"cd {folder(run)} 2>/dev/null || {{ echo vanished; exit; }}; {_find(run)}"
        "if [ -e mpirun.rc ]; then cat mpirun.rc; exit; fi; "
        "pid=$(cat mpirun.pid 2>/dev/null || echo none); "
        "if alive; then echo running; else echo vanished; fi"
    )


def end_mpirun(run: str, *, stage: bool = False) -> str:
    """Shell on the head phone: TERM, TERM within 5 s, KILL.

    The first TERM hangs for minutes while a phone is unreachable; a second one soon after ends it.
    """
    return (
        f"cd {folder(run, stage=stage)} 2>/dev/null || exit 0; {_find(run)}"
        "pid=$(cat mpirun.pid 2>/dev/null || echo none); "
        "gone() { n=0; while alive; do n=$((n+1)); [ $n -gt $1 ] && return 1; sleep 0.1; done; }; "
        "alive || exit 0; kill -TERM $pid; gone 30 && exit 0; "
        "kill -TERM $pid; gone 25 && exit 0; kill -KILL $pid; gone 20"
    )


def sweep(run: str) -> str:
    """Shell on any phone: ends what is left there of all attempts of the run; prints what would
    not end."""
    return (
        f"{_find(run)}"
        'p=$(pids); [ -z "$p" ] && exit 0; kill -TERM $p 2>/dev/null; '
        'n=0; while p=$(pids); [ -n "$p" ]; do n=$((n+1)); [ $n -gt 15 ] && break; sleep 0.1; '
        'done; [ -z "$p" ] && exit 0; kill -KILL $p 2>/dev/null; sleep 0.3; pids'
    )


def free_kibibytes() -> str:
    """Shell on any phone: how much of its storage is free."""
    return f"df -Pk {TERMUX_HOME} | tail -n 1 | awk '{{print $4}}'"


def read_finals(run: str, *, stage: bool = False) -> str:
    """Shell on any phone: its final record, if it wrote one."""
    return f"cat {folder(run, stage=stage)}/rank-*.final.json 2>/dev/null || true"


def ask_to_finish(run: str) -> str:
    """Shell on any phone of a run: it shall end with a checkpoint; see FINISH in trainer.loop."""
    return f"touch {folder(run)}/finish"


def look_at_rank(run: str) -> str:
    """Shell on any phone: the states of the run's processes on one line, `ready` on the next once
    its rank has said so, then its progress."""
    return (
        f"{_find(run)}for p in $(pids); do sed 's/.*) \\(.\\) .*/\\1/' /proc/$p/stat; "
        f"done 2>/dev/null | tr '\\n' ' '; echo; cd {folder(run)} 2>/dev/null || exit 0; "
        "ls rank-*.ready >/dev/null 2>&1 && echo ready || echo; "
        f"cat rank-*.progress.json 2>/dev/null || true"
    )


def look_at_progress(run: str) -> str:
    """Shell on any phone: its rank's progress, if it says any yet."""
    return f"cat {folder(run)}/rank-*.progress.json 2>/dev/null || true"
