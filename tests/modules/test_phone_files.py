"""phone_files writes all files or none."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest
from termux_prefix import ModuleFailure


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_with_modes_and_then_changes_nothing(run_module, tmp_path):
    files = [
        {"path": str(tmp_path / "etc/name"), "content": "phone001\n", "mode": "0644"},
        {"path": str(tmp_path / "etc/key"), "content": "k\n"},
    ]

    first = run_module("phone_files", files=files)
    second = run_module("phone_files", files=files)

    assert first["written"] == [str(tmp_path / "etc/name"), str(tmp_path / "etc/key")]
    assert second == {"changed": False, "written": [], "diff": []}
    assert (tmp_path / "etc/name").read_text() == "phone001\n"
    assert stat.S_IMODE((tmp_path / "etc/name").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "etc/key").stat().st_mode) == 0o600


def test_only_what_differs_is_written_and_shown(run_module, tmp_path):
    (tmp_path / "same").write_text("a\n")
    (tmp_path / "same").chmod(0o600)
    (tmp_path / "other").write_text("old\n")

    result = run_module(
        "phone_files",
        files=[
            {"path": str(tmp_path / "same"), "content": "a\n"},
            {"path": str(tmp_path / "other"), "content": "new\n"},
        ],
    )

    assert result["written"] == [str(tmp_path / "other")]
    (diff,) = result["diff"]
    assert (diff["before"], diff["after"]) == ("old\n", "new\n")


def test_a_wrong_mode_is_a_change(run_module, tmp_path):
    (tmp_path / "key").write_text("k\n")
    (tmp_path / "key").chmod(0o644)

    result = run_module("phone_files", files=[{"path": str(tmp_path / "key"), "content": "k\n"}])

    assert result["changed"] is True
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_one_refused_file_keeps_all_as_they_were(run_module, tmp_path):
    (tmp_path / "sshd_config").write_text("good\n")

    with pytest.raises(ModuleFailure) as failure:
        run_module(
            "phone_files",
            files=[
                {"path": str(tmp_path / "banner"), "content": "hello\n"},
                {
                    "path": str(tmp_path / "sshd_config"),
                    "content": "bad\n",
                    "validate": "grep -q good %s",
                },
            ],
        )

    assert str(tmp_path / "sshd_config") in failure.value.result["msg"]
    assert "nothing was written" in failure.value.result["msg"]
    assert names(tmp_path) == ["sshd_config"]
    assert (tmp_path / "sshd_config").read_text() == "good\n"


def test_the_validator_sees_the_new_text(run_module, tmp_path):
    file = {"path": str(tmp_path / "c"), "content": "good\n", "validate": "grep -q good %s"}

    assert run_module("phone_files", files=[file])["changed"] is True


def test_check_mode_shows_the_difference_and_writes_nothing(run_module, tmp_path):
    file = {"path": str(tmp_path / "deep/er/c"), "content": "text\n"}

    result = run_module("phone_files", check=True, files=[file])

    assert result["changed"] is True
    assert result["diff"][0]["after"] == "text\n"
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_is_named(run_module, tmp_path):
    (tmp_path / "file").write_text("in the way\n")

    with pytest.raises(ModuleFailure) as failure:
        run_module("phone_files", files=[{"path": str(tmp_path / "file/c"), "content": "x\n"}])

    assert str(tmp_path / "file") in failure.value.result["msg"]


def test_bytes_come_as_base64(run_module, tmp_path):
    file = {"path": str(tmp_path / "krl"), "content": "U1NIS1JMCgD/", "encoding": "base64"}

    results = [run_module("phone_files", files=[file])["changed"] for _ in range(2)]

    assert results == [True, False]
    assert (tmp_path / "krl").read_bytes() == b"SSHKRL\n\x00\xff"


def test_what_is_no_base64_is_refused(run_module, tmp_path):
    file = {"path": str(tmp_path / "krl"), "content": "no base64!", "encoding": "base64"}

    with pytest.raises(ModuleFailure) as failure:
        run_module("phone_files", files=[file])

    assert "no base64" in failure.value.result["msg"]


class TestSource:
    """A file may be a copy of another one on the phone, whatever is in it."""

    def test_its_bytes_are_copied_once(self, run_module, tmp_path):
        (tmp_path / "lib.so").write_bytes(b"\x7fELF\xff\x00")
        file = {"path": str(tmp_path / "lib/x.so"), "source": str(tmp_path / "lib.so")}

        results = [run_module("phone_files", files=[file]) for _ in range(2)]

        assert [result["changed"] for result in results] == [True, False]
        assert (tmp_path / "lib/x.so").read_bytes() == b"\x7fELF\xff\x00"
        assert results[0]["diff"][0]["after"].startswith("6 bytes, SHA-256 ")

    def test_check_mode_knows_that_it_may_be_about_to_come(self, run_module, tmp_path):
        file = {"path": str(tmp_path / "x.so"), "source": str(tmp_path / "lib.so")}

        assert run_module("phone_files", check=True, files=[file])["changed"] is True

    def test_one_that_is_missing_is_named_and_nothing_is_written(self, run_module, tmp_path):
        files = [
            {"path": str(tmp_path / "first"), "content": "x"},
            {"path": str(tmp_path / "x.so"), "source": str(tmp_path / "lib.so")},
        ]

        with pytest.raises(ModuleFailure) as failure:
            run_module("phone_files", files=files)

        assert str(tmp_path / "lib.so") in failure.value.result["msg"]
        assert names(tmp_path) == []


def test_what_a_killed_run_has_left_is_gone_after_the_next(run_module, tmp_path):
    """Killed after it has staged one file; a run that is still at work keeps its own."""
    files = [{"path": str(tmp_path / "etc/name"), "content": "phone001\n"}]
    run_module("phone_files", files=files)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        at_work = tmp_path / f"etc/.name.{other.pid}.0.phonerack"
        at_work.write_text("half")
        run_module("phone_files", files=files)
        assert names(tmp_path / "etc") == [at_work.name, "name"]
        other.send_signal(signal.SIGKILL)
    os.truncate(tmp_path / "etc/name", 0)

    assert run_module("phone_files", files=files, check=True)["changed"] is True
    assert names(tmp_path / "etc") == [at_work.name, "name"]
    run_module("phone_files", files=files)
    assert names(tmp_path / "etc") == ["name"]
    assert run_module("phone_files", files=files)["changed"] is False


BEGINS = ["Include d/ours*.conf", "Include d/*.conf"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Port 22\n", "Include d/ours*.conf\nPort 22\n"),
        ("# by hand\nPort 22\nInclude d/*.conf\n", None),
        ("# by hand\n\n  Include d/*.conf\nPort 22\n", "as it was"),
        ("Include d/ours*.conf\nPort 22\n", "as it was"),
        ("", "Include d/ours*.conf\n"),
    ],
)
def test_a_file_of_somebody_elses_begins_as_it_must_and_is_else_left_alone(
    run_module, tmp_path, before, after
):
    file = tmp_path / "config"
    file.write_text(before)
    file.chmod(0o644)
    wanted = {None: f"Include d/ours*.conf\n{before}", "as it was": before}.get(after, after)

    result = run_module("phone_files", files=[{"path": str(file), "begins": BEGINS}])
    again = run_module("phone_files", files=[{"path": str(file), "begins": BEGINS}])

    assert file.read_text() == wanted
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert result["changed"] == (wanted != before)
    assert again["changed"] is False


def test_what_a_program_goes_by_is_looked_at_once_the_files_are_there(run_module, tmp_path):
    file, said = tmp_path / "ours.conf", tmp_path / "all.conf"
    said.write_text("passwords yes\nport 8022\n")
    options = {
        "files": [{"path": str(file), "content": "passwords no\n"}],
        "proofs": [{"command": f"cat {said} {file}", "lines": ["passwords no"], "cure": "look"}],
    }

    check = run_module("phone_files", check=True, **options)
    assert (check["changed"], file.exists()) == (True, False)
    assert run_module("phone_files", **options)["changed"] is True
    options["proofs"][0]["lines"] += ["keys /k", "port 8022"]
    with pytest.raises(ModuleFailure) as failure:
        run_module("phone_files", **options)
    with pytest.raises(ModuleFailure):
        run_module("phone_files", check=True, **options)

    said = failure.value.result["msg"]
    assert "`keys /k`" in said
    assert "port" not in said
    assert said.endswith("(look)")
