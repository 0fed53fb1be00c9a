"""The house's plan: which room may import which, and how large a file may grow."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
ROOMS = (
    *("rack", "state", "remote", "checks", "switches", "power", "provision", "plan", "jobs"),
    *("guard", "bench", "serve", "cli"),
)
OURS = {"fleetctl", "trainer", "exporters", "standin", "plugins"}
ON_THE_PHONE = {"prometheus_client", "numpy", "torch", "torchvision"}
ON_THE_SERVICES_HOST = "exporters.switches"
"""Does not go to phones; its packages go with it."""

COMMONS = {"fleetctl", "fleetctl.errors"}
"""Below all rooms: the version, and the failures that fleetctl can explain."""

ON_THE_CONTROLLER = {"android_setting"}
"""Modules that never run on a phone."""

MOST_LINES = 400


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((PROJECT / folder).rglob("*.py"))]


def module_of(path: Path) -> str:
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_of(module: str) -> Path:
    path = PROJECT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imports(path: Path, only_at_start: bool = False) -> Iterator[str]:
    """Full names of all that `path` imports, lazily or not, but for type checking."""
    tree = ast.parse(path.read_text(), str(path))
    for node in _nodes(tree, only_at_start):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            assert node.module
            yield from (_submodule(node.module, name.name) for name in node.names)


def _nodes(tree: ast.AST, only_at_start: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if only_at_start and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield node
        yield from _nodes(node, only_at_start)


def _submodule(module: str, name: str) -> str:
    """`from a.b import c`: the module a.b.c if there is one, else a.b."""
    inside = PROJECT.joinpath(*module.split("."), name)
    return f"{module}.{name}" if inside.with_suffix(".py").is_file() or inside.is_dir() else module


def room_of(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("path", sources("fleetctl"), ids=module_of)
def test_a_room_imports_only_what_stands_to_its_left(path: Path) -> None:
    here = module_of(path)
    if here in COMMONS:
        allowed: tuple[str, ...] = ()
        here_room = "commons"
    else:
        here_room = room_of(here)
        allowed = ROOMS[: ROOMS.index(here_room) + 1]
    for module in imports(path):
        top = module.split(".")[0]
        if module in COMMONS or top not in OURS:
            continue
        if top == "fleetctl":
            assert room_of(module) in allowed, f"{here} imports {module}"
        elif top == "standin":
            assert here_room == "cli", f"{here} imports {module}"
        else:
            assert module == "trainer.formats", f"{here} imports {module}"


@pytest.mark.parametrize("path", sources("standin"), ids=module_of)
def test_the_stand_in_imports_the_rack_only(path: Path) -> None:
    for module in imports(path):
        if module.split(".")[0] in OURS - {"standin"}:
            allowed = module in COMMONS or module.startswith("fleetctl.rack")
            assert allowed, f"{module_of(path)} imports {module}"


@pytest.mark.parametrize("path", sources("trainer", "exporters"), ids=module_of)
def test_what_runs_on_a_phone_needs_nothing_but_the_phones_packages(path: Path) -> None:
    own = module_of(path).split(".")[0]
    allowed = ON_THE_PHONE | {own} | set(sys.stdlib_module_names)
    if module_of(path).startswith(ON_THE_SERVICES_HOST):
        allowed = {"prometheus_client", "pysnmp", own} | set(sys.stdlib_module_names)
    for module in imports(path):
        if own == "exporters" and module == "trainer.formats":
            continue
        assert module.split(".")[0] in allowed, f"{module_of(path)} imports {module}"


def test_the_formats_need_the_standard_library_only() -> None:
    seen, todo = set(), ["trainer.formats"]
    while todo:
        module = todo.pop()
        seen.add(module)
        for name in imports(source_of(module)):
            if name.startswith("trainer.") and name not in seen:
                todo.append(name)
            elif not name.startswith("trainer"):
                assert name.split(".")[0] in sys.stdlib_module_names, f"{module} imports {name}"


@pytest.mark.parametrize("path", sources("plugins/modules"), ids=module_of)
def test_modules_on_the_phone_import_nothing_of_ours(path: Path) -> None:
    if path.stem in ON_THE_CONTROLLER:
        return
    ours = [module for module in imports(path) if module.split(".")[0] in OURS]
    assert not ours


def test_no_module_needs_itself_to_be_imported() -> None:
    paths = sources("fleetctl", "trainer", "exporters", "standin")
    names = {module_of(path) for path in paths}
    graph = {
        module_of(path): {name for name in imports(path, only_at_start=True) if name in names}
        - {module_of(path)}
        for path in paths
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " imports ".join((*trail, module))
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


@pytest.mark.parametrize(
    "path",
    sources("fleetctl", "trainer", "exporters", "standin", "plugins", "tests", "benchmarks"),
    ids=module_of,
)
def test_files_are_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MOST_LINES


def test_no_two_test_files_bear_the_same_name() -> None:
    """pytest could not collect them together."""
    names = Counter(path.name for path in (PROJECT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []
