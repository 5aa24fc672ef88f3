"""Commands of the documentation that are not played (``tests/documents``) exist, with the options that are shown;
each configuration is one; each link leads somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest

from lcc.config import Config, parse_config
from lcc.export.cli import main as export
from tests.support.documents import PAGES, blocks_of

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
OURS = frozenset(
    {
        "file2url",
        "lcccpstate",
        "lcccp",
        "lcc-admin",
        "lcc",
        "lcc-uns",
        "lcc-qm",
        "lcc-botm",
        "lcc-bot",
        "lcc-cu",
        "lcc-rs",
        "lcc-spider",
        "lcc-web",
        "lcc-export",
    }
)
EXPORTS = frozenset(export.commands)
GROUPS = {
    "lcc-admin": {
        *("provider", "user", "certificates", "register", "web-user"),
        *("task", "job", "resource", "feed", "sitemap", "resync", "spider", "push", "fe", "search"),
    }
}
"""Tools whose first argument is a command, and which of these are groups of commands."""


def blocks(kind: str) -> Iterator[str]:
    """The fenced blocks of this kind in all pages."""
    return (block.text for page in PAGES for block in blocks_of(page, kind))


def commands() -> Iterator[tuple[str, ...]]:
    """Each command of each pipeline in the shell blocks that are left out by who plays the page."""
    for block in (block for page in PAGES for block in blocks_of(page, "sh") if block.left_out):
        for line in block.text.replace("\\\n", " ").replace("|\n", "| ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                for command in re.split(r"\||&&|;", line.replace("…", "")):
                    yield tuple(shlex.split(command.split(">")[0]))


COMMANDS = sorted({command for command in commands() if command})


@cache
def help_of(command: tuple[str, ...]) -> str:
    done = subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_commands() -> None:
    names = {command[0] for command in COMMANDS}
    assert {"make", "twistd", "lcc-admin", "lcccpstate", "lcccp"} <= names
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.index("make demo") < readme.index("make test") < readme.index("make wheel")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_exists(command: tuple[str, ...]) -> None:
    name, *arguments = command
    if name == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(arguments) <= set(targets)
        return
    if name == "twistd":
        (role,) = [argument for argument in arguments if argument.startswith("lcc")]
        assert role in OURS
        return
    if name not in OURS:
        return  # a tool of the system
    asked = [name]
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]  # what follows is a consumer
    if name in ("lcc-admin", "lcc-export"):
        values = {after for option, after in pairwise(arguments) if option == "--config"}
        words = [word for word in arguments if not word.startswith(("-", "/")) and word not in values]
        if name == "lcc-export":  # options with values stand before its command
            words = [word for word in words if word in EXPORTS]
        asked.append(words[0])
        if words[0] in GROUPS.get(name, ()):
            asked.append(words[1])
    text = help_of(tuple(asked)) + (help_of((name,)) if len(asked) > 1 else "")
    if "--find" in arguments:
        arguments = arguments[: arguments.index("--find") + 1]  # what follows is find's
    for argument in arguments:
        if argument.startswith("--"):
            assert argument.partition("=")[0] in text, f"{' '.join(asked)} has no {argument}"


@pytest.mark.parametrize("text", list(blocks("toml")))
def test_each_configuration_is_one(text: str, tmp_path: Path) -> None:
    tomllib.loads(text)
    parse_config(text, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


TABLES = {
    name: {each.name for each in attrs.fields(kind)}
    for name, kind in get_type_hints(Config).items()
    if attrs.has(kind)
}


def named(pattern: str) -> Iterator[tuple[str, re.Match[str]]]:
    """What the text of the pages names in this form: the page, and the match."""
    for page in PAGES:
        for match in re.finditer(pattern, page.read_text(encoding="utf-8")):
            yield page.name, match


def test_each_setting_that_is_named_exists() -> None:
    found = list(named(r"`\[(\w+)\]\s+(\w+)"))
    assert len(found) >= 50
    for page, match in found:
        assert match[2] in TABLES.get(match[1], ()), f"{page}: {match[0]}"


def test_each_file_that_is_named_exists() -> None:
    found = list(named(r"`((?:lcc|tests|scripts|etc|doc|benchmarks|demo)/[\w./-]+)`"))
    assert len(found) >= 20
    for page, match in found:
        assert match[1] == "benchmarks/X.py" or (ROOT / match[1]).exists(), f"{page}: {match[0]}"


def test_each_target_that_is_named_exists() -> None:
    rules = re.findall(r"^([a-z %-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    found = list(named(r"`make ([a-z-]+)"))
    assert len(found) >= 20
    for page, match in found:
        assert match[1] in targets or (match[1].startswith("bench-") and "bench-%" in targets), f"{page}: {match[0]}"
