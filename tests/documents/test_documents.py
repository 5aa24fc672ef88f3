"""Each page that shows commands is played on a machine of its own: they run, and show what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import COMMANDS, PAGES, ROOT, blocks_of, fences_of, world_of

from .__main__ import command
from .comparing import alike
from .host import namespaces, why_not
from .player import steps
from .shell import commands

LONG = ("splitting.md",)
"""Pages that take most of a minute."""
PLAYED = [
    pytest.param(page, id=page.name, marks=pytest.mark.long if page.name in LONG else ())
    for page in PAGES
    if world_of(page)
]


@pytest.mark.parametrize("page", PLAYED)
def test_it_does_what_it_says(page: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    done = subprocess.run(command(page, []), cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_such_a_machine_leaves_nothing(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    words = [*namespaces(), sys.executable, "-c", "from tests.documents.host import set_up; set_up()"]
    subprocess.run(words, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, check=True)
    assert not list(tmp_path.iterdir())


def test_what_is_left_out_has_a_reason() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            for test in block.marks.get("run by", []):
                assert page.name in (ROOT / test).read_text(encoding="utf-8"), f"{block}: not in {test}"
            for reason in block.marks.get("not run:", []):
                assert len(reason) >= 8, block


NO_COMMANDS = frozenset({"toml", "xml", "python", "json", "yaml", "ini", "shell", "sql", "nginx", "text", ""})
"""Languages of blocks that are no commands: ``shell`` is the text of a script."""
DIRECTIVE = re.compile(r"\{[\w:-]+\}")
PROMPT = re.compile(r"^\s*\$ ", re.MULTILINE)
INDENTED = re.compile(r"(?:\n\n|\A)(?: {4}|\t)(?:\$ |lcc|twistd|curl|file2url)")
"""A block of Markdown that is set off by spaces: it would be shown as commands, and no player would see it."""


def test_no_command_is_left_out() -> None:
    """Each block of commands is played, or says by whom or why not."""
    for page in PAGES:
        blocks = {block.line: block for block in blocks_of(page)}
        for line, kind, text in fences_of(page):
            where = f"{page.name}:{line}"
            assert kind in COMMANDS | NO_COMMANDS or DIRECTIVE.fullmatch(kind), f"{where}: what is {kind!r}?"
            block = blocks.get(line)
            if kind in COMMANDS:
                assert block is not None, f"{where}: no player sees it"
                assert world_of(page) or block.left_out, f"{where}: nobody plays it, and it does not say why"
            elif PROMPT.search(text):
                assert block is not None and block.left_out, f"{where}: commands, and nobody plays them"
        assert not INDENTED.search(page.read_text(encoding="utf-8")), (
            f"{page.name}: let commands be in a fenced block"
        )


COMMENT_BEHIND = re.compile(r"^[^#\n]*\S[ \t]+#[ \t].*$", re.MULTILINE)
SECRET = re.compile(r"Authorization:|\s-u\s+\S+:\S|--pwd[= ]|--password[= ]|[?&]token=")
"""What others on the host would read in a list of processes."""


def test_examples_are_for_any_shell() -> None:
    """zsh, as people use it, takes a comment behind a command for more of its words."""
    for page in PAGES:
        for block in blocks_of(page, *COMMANDS):
            found = COMMENT_BEHIND.search(block.text)
            assert found is None, f"{block}: {found}"


def test_no_secret_is_an_argument() -> None:
    found = 0
    for page in PAGES:
        for block in blocks_of(page, *COMMANDS, "shell"):
            found += 1
            for words in re.split(r"[|\n](?!\s)", block.text.replace("\\\n", " ")):
                if not words.lstrip().startswith(("(umask 077;", "printf", "sed ", "echo")):
                    assert SECRET.search(words) is None, f"{block}: {words}"
    assert found > 50


LINE_CHARS = 100
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "tests").glob("*.md"),
    *(ROOT / "doc").rglob("*.md"),
    *(ROOT / "newsfragments").glob("*.rst"),
]
GREETING = '<!-- LCC robot: type <fetch url="http://www.example.org/"/>'
"""What a role says, in one line that a test compares."""


def test_lines_are_short() -> None:
    """Except rows of tables, and URLs, which cannot be broken."""
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(TEXTS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LINE_CHARS
        and not line.startswith(("|", GREETING))
        and not any("://" in word and len(word) > LINE_CHARS - 10 for word in line.split())
    ]
    assert len(TEXTS) > 30 and not long


def test_what_is_shown_is_compared() -> None:
    assert alike("run 17, 3 files\n", "run 2, 41 files\n")
    assert not alike("run 17, 3 files\n", "run 2, 41 sets\n")
    assert alike("password: 0123456789abcdef0123\n", "password: 3f1c…\n")
    assert alike("one\ntwo\nthree\n", "one\n…\n") and alike("one\ntwo\nthree\n", "…\nthree\n")
    assert not alike("one\ntwo\n", "one\n") and not alike("one\n", "…\nthree\n")
    assert alike("curl  path\n", "curl path\n") and not alike("", "something\n") and alike("", "")


def test_commands_are_told_apart() -> None:
    text = "a |\n    b \\\n    --c\n# no\n\ncat > x <<END\none\nEND\nfor i in 1 2\ndo\n  echo $i\ndone\n"
    assert list(commands(text)) == [
        "a |\n    b \\\n    --c",
        "cat > x <<END\none\nEND",
        "for i in 1 2\ndo\n  echo $i\ndone",
    ]
    assert list(steps("# soon\n$ a |\n>   b\nshown\n\n$ c\n>>> d\ne\n")) == [
        ("# soon", ""),
        ("$ a |\n  b", "shown\n\n"),
        ("$ c", ""),
        (">>> d", "e\n"),
    ]
