"""Run Ansible modules in this process against a throw-away Termux prefix."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from mirror_rig import Mirror
from termux_prefix import ModuleExit, ModuleFailure, Prefix, Repository, load


@pytest.fixture
def run_module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Call a module by name with its options; the result, or ModuleFailure.

    `constants` are others than the module's own, for tests that need not wait so long.
    """

    def leave(kind: type[Exception]) -> Callable[..., None]:
        def end(_module: basic.AnsibleModule, **result: Any) -> None:
            raise kind(json.loads(json.dumps(result, default=str)))

        return end

    monkeypatch.setattr(basic.AnsibleModule, "exit_json", leave(ModuleExit))
    monkeypatch.setattr(basic.AnsibleModule, "fail_json", leave(ModuleFailure))

    def run(
        module: str,
        /,
        check: bool = False,
        constants: dict[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        loaded = load(module)
        for name, value in (constants or {}).items():
            setattr(loaded, name, value)
        with patch_module_args({**options, "_ansible_check_mode": check, "_ansible_diff": True}):
            try:
                loaded.main()
            except ModuleExit as end:
                return end.args[0]
        raise AssertionError(f"{module} neither succeeded nor failed")

    return run


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prefix:
    made = Prefix(tmp_path / "usr")
    monkeypatch.setenv("PREFIX", str(made.path))
    return made


@pytest.fixture
def repository(tmp_path: Path, prefix: Prefix) -> Repository:
    made = Repository(tmp_path / "repository", prefix.path)
    prefix.source(made)
    return made


@pytest.fixture
def mirror(tmp_path: Path, run_module: Callable[..., dict[str, Any]]) -> Mirror:
    return Mirror(tmp_path, run_module)


@pytest.fixture
def small(prefix: Prefix) -> Iterator[Prefix]:
    """The prefix on a file system of its own, of 24 MB."""
    aside = prefix.path.with_name("aside")
    shutil.copytree(prefix.path, aside)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "phonerack-test", prefix.path], check=True
    )
    try:
        shutil.copytree(aside, prefix.path, dirs_exist_ok=True)
        yield prefix
    finally:
        subprocess.run(["umount", prefix.path], check=True)
