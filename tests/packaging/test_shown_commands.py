"""Commands that are shown to be copied into a shell: what strangers wrote in them is one word and nothing else."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.model.shellwords import shell_command, shell_word

ROOT = Path(__file__).resolve().parents[2]
SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "ksh") if shutil.which(shell)]
MODERN = [shell for shell in SHELLS if shell in ("bash", "zsh", "ksh")]
"""They know ``$'…'``."""
HOSTILE = [
    *("", "a b", "a;id", "a&id", "a|id", "$(id)", "`id`", "a'b", 'a"b', "'; id; '", "\\'; id #", "a\\", "!!", "!id"),
    *("=ls", "~", "~root", "*", "[a-z]*", "{a,b}", "#x", "a>b", "<(id)", "$HOME", "${IFS}id", "a\u00e9\u4e2d", "-x"),
    *(
        "\n",
        "\nid\n",
        "a\rid\r",
        "\x1b[201~id\n",
        "\x03id\n",
        "\x04",
        "\x16",
        "\x7f",
        "\t\t",
        "a\x9b201~",
        "\u202eid",
    ),
    *("\x1b'; id; '", "\x1b\\'; id; \\'", "\x1b\\", "\u200b", "\u2028id", "text/`id`", "http://x/?a=1&b=$(id)#'"),
]
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]")


def words_of(shell: str, line: str) -> list[str]:
    """What a shell makes of a line, after a command that prints its arguments."""
    done = subprocess.run(
        [shell, "-c", f"printf '%s\\0' {line}"],
        capture_output=True,
        timeout=30,
        check=False,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0 and not done.stderr, (line, done)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_word_is_that_word_in_each_shell(text: str) -> None:
    shown = shell_word(text)
    assert not CONTROL.search(shown)
    for shell in MODERN if shown.startswith("$'") else SHELLS:
        assert words_of(shell, f"a {shown} b") == ["a", text, "b"]
    for shell in SHELLS:  # one word, whatever an older shell makes of it
        assert len(words_of(shell, f"a {shown} b")) == 3


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=40))
def test_words_are_these_words(words: list[str]) -> None:
    shown = shell_command(*words)
    assert not CONTROL.search(shown)
    assert words_of("bash", shown) == words
    assert len(words_of("sh", shown)) == len(words)


def test_what_is_plain_is_shown_as_it_is() -> None:
    assert shell_command("lcc-admin", "why", "http://www.example.org/a-b_c/%7E~?"[:-2]) == (
        "lcc-admin why http://www.example.org/a-b_c/%7E"
    )
    assert shell_command("--provider", 7, "--mimetype", "text/html") == "--provider 7 --mimetype text/html"
    assert shell_word("lcc.example.org:9000") == "lcc.example.org:9000"
    assert shell_word("a\udcff") == r"$'a\xff'"
    assert shell_word("\ud800") == r"$'\xed\xa0\x80'"


COMMAND = re.compile(
    r"\b(lcc-[a-z]+|lcccp|lcccpstate|file2url|twistd|systemctl|mysql|curl|ssh|rm|mv|cp|chmod)\s+(?:[a-z-]|[0-7]{3} )"
    r"|--[a-z-]+[ =]$"
)
NUMBERS = {"number", "pid", "registration.number"}
"""What else is shown in commands: no text."""


def unquoted(path: Path) -> Iterator[str]:
    """Values that stand behind a command in a text, and were not made words of it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        said = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                said += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            value = ast.unparse(part.value)
            # A command ends where the sentence goes on.
            clause = re.split(r"[;:,()]\s|\n", said)[-1]
            quoted = value.startswith(("shell_word(", "shell_command("))
            if COMMAND.search(clause) and not quoted and value not in NUMBERS:
                yield f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
            said += "X"


ALLOWED = {
    # No commands.
    "lcc-admin cannot connect to {address}",
    "lcc-admin cannot connect to {text}",
    "ssh cannot connect to {endpoint}",
    "--- {role}",
    "another run of lcccpstate has since changed {state.pending}",
    '"lcc-admin console-password NAME" ({passwords})',
    # The name of a role, of our own.
    "twistd --nodaemon --pidfile= {name}",
    "(lcc-admin console {role})",
}


def test_messages_quote_what_stands_in_a_command() -> None:
    paths = [path for path in sorted((ROOT / "lcc").rglob("*.py")) if path.parts[-2] != "testing"]
    found = [each for path in paths for each in unquoted(path)]
    assert not [each for each in found if not any(right in each for right in ALLOWED)]


def test_templates_quote_what_stands_in_a_command() -> None:
    shown = 0
    for path in sorted((ROOT / "lcc").rglob("templates/*.html")):
        for code in re.findall(r"<code[^>]*>(.*?)</code>", path.read_text(encoding="utf-8"), re.DOTALL):
            if not COMMAND.search(code):
                continue
            for value in re.findall(r"\{\{(.*?)\}\}", code):
                shown += 1
                assert value.strip().endswith("|shell"), f"{path.name}: {code}"
    assert shown >= 4
