"""What CONTRIBUTING.md and tests/README.md name is there: paths, names in files, make targets, modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md"]
EXAMPLES = re.compile(r"\bnex\b|_nex\b|ping|echo|NNN|ISSUE|_name\b")
"""Names of what the recipes make."""
LINE_CHARS = 100

_PATH = re.compile(r"`((?:lcc|tests|doc|scripts|twisted|benchmarks|newsfragments|etc|demo|\.ci)/[\w./*-]*)`")
_BRACE = re.compile(r"`([\w./-]+/)\{([\w,-]+)\}`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[\w-]+)?\)")
_NAMES_IN = re.compile(r"`([\w./]+\.py)`\s+\(((?:`\w+`(?:,\s+)?)+)[,)]")
_NAME_OF = re.compile(r"`(\w+)`\s+\(`([\w./]+\.py)`[,)]")
_MAKE = re.compile(r"\bmake ([a-z][\w -]*[a-z])")
_MODULE = re.compile(r"python -m (tests[\w.]*)")


def named_paths(page: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    yield from (path for path in _PATH.findall(text) if not EXAMPLES.search(path))
    for folder, names in _BRACE.findall(text):
        yield from (folder + name for name in names.split(","))


def is_there(path: str, places: tuple[str, ...]) -> bool:
    return any(list(ROOT.glob(f"{place}/{path}".removeprefix("./").rstrip("/"))) for place in places)


def test_paths_exist() -> None:
    for page in PAGES:
        paths = list(named_paths(page))
        assert paths
        assert [path for path in paths if not is_there(path, (".",))] == [], page
        links = _LINK.findall(page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_what_the_map_of_the_tests_names_is_there() -> None:
    """Its paths are relative to ``tests``, or to ``tests/support``."""
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", text)) | set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    named = {name for name in named if not name.isupper() and not name.startswith("LCC_")}
    assert len(named) > 50
    assert sorted(name for name in named if not is_there(name, (".", "tests", "tests/*", "tests/support"))) == []
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    assert folders - named == {"support"}, "a folder that the map leaves out"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_stand_in_the_files_they_are_said_to_be_in(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    pairs = {(path, name) for path, names in _NAMES_IN.findall(text) for name in re.findall(r"\w+", names)}
    pairs |= {(path, name) for name, path in _NAME_OF.findall(text)}
    pairs = {pair for pair in pairs if not EXAMPLES.search(pair[0])}
    assert pairs or page.name != "CONTRIBUTING.md"
    lost = [(path, name) for path, name in sorted(pairs) if not re.search(rf"\b{name}\b", (ROOT / path).read_text())]
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {target for found in re.findall(r"^([\w -]+):", makefile, re.MULTILINE) for target in found.split()}
    commands = "\n".join(re.findall(r"`(make [^`]+)`|^(?:make [^#\n]+)", text, re.MULTILINE))
    asked = {word for found in _MAKE.findall(commands) for word in found.split()}
    assert not asked - targets
    assert [module for module in _MODULE.findall(text) if find_spec(module) is None] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > LINE_CHARS and not line.startswith("|")] == []
