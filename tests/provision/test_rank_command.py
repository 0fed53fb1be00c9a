"""What the key of a rank may start on another phone."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Template

TEMPLATE = Path(__file__).resolve().parents[2] / "roles/ssh/templates/rank.j2"
SHOW = '#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@" >"$SAID"\n'

# What both series send, cut down to one of each kind of word.
PRTED = (
    "( test ! -r ./.profile || . ./.profile; PRTE_PREFIX=/data/usr;export PRTE_PREFIX;"
    "LD_LIBRARY_PATH=/data/usr/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;"
    '/data/usr/bin/prted --daemonize --prtemca ess "env"'
    ' --prtemca prte_hnp_uri "prterun-phone001-374@0.0;tcp://10.155.0.11:38669:24"'
    ' --prtemca plm_ssh_args "-o ConnectTimeout=5" )'
)
ORTED = (
    '( test ! -r ./.profile || . ./.profile;  orted --daemonize -mca ess "env"'
    ' -mca orte_node_regex "phone[3:1],[2:10].155.0.12@0(3)" -mca osc "^ucx" )'
)


class Phone:
    """A prefix whose daemons only note what they were given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "tmp").mkdir()
        for name in ("prted", "orted"):
            self.daemon(name, SHOW)
        (folder / "bin/sh").symlink_to("/bin/sh")
        self.command = folder / "rank"
        rendered = Template(TEMPLATE.read_text()).render(termux_prefix=folder, ansible_managed="")
        self.command.write_text(rendered)
        self.command.chmod(0o700)

    def daemon(self, name: str, script: str) -> None:
        (self.folder / "bin" / name).write_text(script)
        (self.folder / "bin" / name).chmod(0o700)

    @property
    def said(self) -> list[str]:
        """What the daemon was given, once it is asked for."""
        path = self.folder / "said"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def rank_asks(self, call: str | None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", "SAID": str(self.folder / "said")}
        if call is not None:
            environment["SSH_ORIGINAL_COMMAND"] = call
        return subprocess.run(
            [self.command], env=environment, cwd=self.folder, text=True, capture_output=True
        )


@pytest.fixture
def phone(tmp_path: Path) -> Phone:
    return Phone(tmp_path)


@pytest.mark.parametrize(("call", "daemon"), [(PRTED, "prted"), (ORTED, "orted")])
def test_open_mpis_daemon_starts_with_the_words_of_mpirun(
    phone: Phone, call: str, daemon: str
) -> None:
    assert phone.rank_asks(call).returncode == 0

    words = call.split(f"{daemon} ")[1].removesuffix(" )")
    assert phone.said == [daemon, *shlex.split(words)]


def test_mpirun_is_let_go_while_a_daemon_whose_first_process_stays_lives_on(phone: Phone) -> None:
    """As Open MPI 5 behaves: mpirun would wait for ever to start the 17th phone."""
    phone.daemon("prted", f"#!/bin/sh\nsleep 60 &\necho $! >{phone.folder}/pid\nwait\n")

    said = phone.rank_asks(PRTED)

    os.kill(int((phone.folder / "pid").read_text()), signal.SIGTERM)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_a_daemon_that_cannot_start_is_told_to_mpirun(phone: Phone) -> None:
    phone.daemon("prted", "#!/bin/sh\necho CANNOT LINK EXECUTABLE >&2\nexit 127\n")

    said = phone.rank_asks(PRTED)

    assert (said.returncode, said.stderr) == (127, "CANNOT LINK EXECUTABLE\n")
    assert list((phone.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    "call",
    [
        None,
        "sh",
        "cat >>.ssh/authorized_keys",
        "/data/usr/libexec/sftp-server",
        "rsync --server . .",
        "touch canary; prted",
        "prted $(touch canary)",
        'prted "$(touch canary)"',
        'prted "`touch canary`"',
        "prted a; touch canary",
        "prted a\ntouch canary",
        'prted "a" & touch canary',
        'prted "a" > canary',
        "prted 'a'",
        'prted "a',
        "prted a\\",
        "myprted a",
    ],
)
def test_nothing_else_is_run_and_the_rank_is_told(phone: Phone, call: str | None) -> None:
    said = phone.rank_asks(call)

    assert (said.returncode, said.stdout) == (126, "")
    assert "this key starts Open MPI's daemons only" in said.stderr
    assert not (phone.folder / "canary").exists()


@settings(max_examples=60)
@given(st.text(st.sampled_from("abt \"';|&<>()$`\\\n*?~{}=-#!"), max_size=30))
def test_whatever_is_asked_runs_the_daemon_with_plain_words_or_nothing(tail: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        phone = Phone(Path(folder))
        before = sorted(phone.folder.rglob("*"))

        said = phone.rank_asks(f"prted {tail}")

        if said.returncode:
            assert (said.returncode, said.stdout) == (126, "")
        else:
            words = shlex.split(tail.removesuffix(" )"))
            assert phone.said == ["prted", *words]
        assert sorted(phone.folder.rglob("*")) == before
