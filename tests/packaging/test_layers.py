"""Imports point one way (doc/architecture.md); and nothing imports the global reactor."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MIDDLE = frozenset({"domain", "protocols", "storage", "fetchers", "transport"})
UPPER = frozenset({"roles", "provider", "client", "insight", "console", "metrics", "feeds", "search", "spider"})
GROUND = frozenset({"model", "errors", "numbers", "config", "plugins"})

ALLOWED: dict[str, frozenset[str]] = {
    "": frozenset(),
    "errors": frozenset(),
    "numbers": frozenset(),
    "plugins": frozenset({"errors"}),
    "model": frozenset({"errors", "numbers", "model"}),
    "config": GROUND,
    "interfaces": GROUND | {"interfaces"},
    **{room: GROUND | {"interfaces", room} for room in MIDDLE},
    **{room: GROUND | MIDDLE | {"interfaces", room} for room in UPPER},
    # What command line tools share.
    "commands": GROUND | {"interfaces", "commands"},
    # Workers have processes of their own, in which little is imported.
    "workers": GROUND | {"commands", "protocols", "workers"},
    "worker": frozenset({"workers"}),
    "provider": GROUND | MIDDLE | {"interfaces", "commands", "client", "provider"},
    # A worker, and what else reads feeds.
    "feeds": GROUND | MIDDLE | {"interfaces", "workers", "feeds"},
    # Names, filters, extractors and stores of the spider; texts and encodings are as feeds read them.
    "spider": GROUND | MIDDLE | {"interfaces", "feeds", "workers", "spider"},
    # Queries, texts and the index; texts and their workers are made of what feeds and spider have.
    "search": GROUND | MIDDLE | {"interfaces", "feeds", "workers", "spider", "search"},
    "roles": GROUND | MIDDLE | {"interfaces", "client", "insight", "workers", "search", "spider", "roles"},
    # The former name of the clients, and of the fields of their queries.
    "users": frozenset({"client", "roles", "users"}),
    **{
        room: GROUND | MIDDLE | UPPER | {"interfaces", "commands", "workers", room}
        for room in ("services", "admin", "export")
    },
    # What the project ships to test with may use anything; nothing may use it.
    "testing": GROUND
    | MIDDLE
    | UPPER
    | {"interfaces", "commands", "workers", "services", "admin", "export", "testing"},
}
"""Room -> the rooms that it may import."""

STORAGE = {
    # disk: what makes the folder of a SQLite file durable.
    "database": frozenset({"database", "disk"}),
    "disk": frozenset({"disk"}),
    "fe": frozenset({"database", "fe", "providers"}),
    "providers": frozenset({"database", "providers"}),
    "queue": frozenset({"database", "providers", "queue"}),
    "hub": frozenset({"database", "hub"}),
    "push": frozenset({"database", "push"}),
    "spider": frozenset({"database", "spider"}),
    "tasks": frozenset({"database", "providers", "tasks"}),
    "views": frozenset({"database", "providers", "views"}),
    "sql": frozenset(),
}
"""Room of the storage -> the rooms of the storage that it may import."""

SHARED_BY_ROLES = frozenset(
    {
        "lcc.roles",
        "lcc.roles.access",
        "lcc.roles.accounts",
        "lcc.roles.asking",
        "lcc.roles.authenticator",
        "lcc.roles.background",
        "lcc.roles.extraction",
        "lcc.roles.front",
        "lcc.roles.loops",
        "lcc.roles.metrics",
        "lcc.roles.places",
        "lcc.roles.notifier",
        "lcc.roles.notifier_port",
        "lcc.roles.pausing",
        "lcc.roles.peer",
        "lcc.roles.proof_files",
        "lcc.roles.standstills",
        "lcc.roles.sub_databases",
        "lcc.roles.upstream",
        "lcc.roles.wall_clock",
    }
)

FILES = sorted((ROOT / "lcc").rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                # "from lcc.services import uns" imports a module, "from lcc.model import Provider" a name.
                whole = f"{node.module}.{alias.name}"
                yield whole if ROOT.joinpath(*whole.split(".")).with_suffix(".py").exists() else node.module or ""


def circles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Files that reach themselves by what they import, those of a circle together."""

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        ahead = [name]
        while ahead:
            new = graph[ahead.pop()] & graph.keys() - found
            found |= new
            ahead += new
        return found

    below = {name: reached(name) for name in graph}
    return sorted({tuple(sorted(other for other in below[name] if name in below[other])) for name in below} - {()})


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_imports_point_one_way(path: Path) -> None:
    name = module_name(path)
    for imported in imports(path):
        if imported.split(".")[0] != "lcc":
            continue
        assert room_of(imported) in ALLOWED[room_of(name)], f"{name} must not import {imported}"
        if name.startswith("lcc.roles.") and imported.startswith("lcc.roles."):
            own = ".".join(name.split(".")[:3])
            shared = imported in SHARED_BY_ROLES
            assert shared or imported == own or imported.startswith(own + "."), f"{name} must not import {imported}"


@pytest.mark.parametrize("room", sorted(STORAGE))
def test_rooms_of_the_storage_import_one_way(room: str) -> None:
    assert {path.name for path in (ROOT / "lcc" / "storage").iterdir() if path.is_dir()} - {"__pycache__"} == set(
        STORAGE
    )
    for path in (ROOT / "lcc" / "storage" / room).rglob("*.py"):
        for imported in imports(path):
            if imported.startswith("lcc.storage."):
                assert imported.split(".")[2] in STORAGE[room], f"{path} must not import {imported}"


def test_folders_of_tests_share_support_only() -> None:
    """What two folders of tests need stands in tests/support; tests/hostile has servers for all, and no tests."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        own = room_of(module_name(path))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("tests."):
                folder = room_of(str(node.module))
                assert folder in ("support", "hostile", own), f"{path} imports {node.module}"
            if isinstance(node, ast.ImportFrom) and own == "support":
                assert not str(node.module).rpartition(".")[2].startswith("test_"), path


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports within functions and for type checkers count, too."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [("b", "c")]
    assert circles({module_name(path): {*imports(path)} - {module_name(path)} for path in FILES}) == []


def test_plugins_import_nothing_of_ours() -> None:
    """twistd reads them at every start, for every command: they must stay cheap."""
    for path in (ROOT / "twisted" / "plugins").glob("*.py"):
        assert not [module for module in imports(path) if module.startswith("lcc")]
    assert not (ROOT / "twisted" / "__init__.py").exists()
    assert not (ROOT / "twisted" / "plugins" / "__init__.py").exists()


def test_each_package_is_listed() -> None:
    """setup.cfg lists packages one by one; one that is missing there is missing in the wheel."""
    import configparser

    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    listed = set(metadata["options"]["packages"].split())
    assert {module_name(path) for path in FILES if path.name == "__init__.py"} | {"twisted.plugins"} == listed


_FORBID = """
import importlib, sys, types

class Forbidden(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"the global reactor was asked for {name!r}")

sys.modules["twisted.internet.reactor"] = Forbidden("twisted.internet.reactor")
import twisted.internet
twisted.internet.reactor = sys.modules["twisted.internet.reactor"]
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed.append(f"{name}: {error!r}")
print("\\n".join(failed))
sys.exit(bool(failed))
"""


LATE = frozenset({"lcc.console.ssh"})
"""conch takes hold of the global reactor when it is imported: these are imported by a function, when it is needed."""


def test_what_takes_hold_of_the_global_reactor_is_imported_late() -> None:
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                assert node.module not in LATE, f"{path} imports {node.module} when it is imported"


def test_no_module_touches_the_global_reactor_when_imported() -> None:
    names = [name for name in map(module_name, FILES) if name not in LATE]
    done = subprocess.run([sys.executable, "-c", _FORBID, *names], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_an_entry_point_imports_the_global_reactor() -> None:
    """What else a simulation must control: ``scripts/check_environment.py``."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "twisted.internet":
                named = {alias.name for alias in node.names}
                assert "reactor" not in named or module_name(path) == "lcc.services.process.environment", path
