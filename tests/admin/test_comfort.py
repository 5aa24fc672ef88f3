"""Completion, manual pages, errors that say what to do next, and what is shown again and again."""

from __future__ import annotations

import ast
import configparser
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from lcc.admin.help.completion import SHELLS, script, variable
from lcc.admin.help.manual import pages
from lcc.admin.help.programs import PROGRAMS, program
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.advice import ADVICE, advice
from lcc.errors import LccError
from tests.support.admin import Lcc
from tests.support.processes.terminal import NarrowTerminal

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def complete(words: str, folder: Path) -> list[str]:
    """What bash is told of a command line whose last word is to be completed."""
    name, count = words.split()[0], len(words.split()) - (not words.endswith(" "))
    environment = dict(os.environ, COMP_WORDS=words, COMP_CWORD=str(count), **{variable(name): "bash_complete"})
    done = subprocess.run(
        [BIN / name], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_all_console_scripts_are_known() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    lines = metadata["options.entry_points"]["console_scripts"].split("\n")
    scripts = {line.split("=")[0].strip() for line in lines if line}
    assert set(PROGRAMS) == scripts - {"lcc-htdig"}, "lcc-htdig is called by ht://Dig, by nobody else"
    for name in PROGRAMS:
        assert isinstance(program(name), click.Command)


def test_commands_options_and_values_are_completed(tmp_path: Path) -> None:
    assert complete("lcc-admin sta", tmp_path) == ["status"]
    assert complete("lcc-admin provider se", tmp_path) == ["set"]
    assert "--watch" in complete("lcc-admin status --w", tmp_path)
    assert complete("lcc-admin explain dns", tmp_path) == ["dns-failed"]
    assert complete("lcc-bot --li", tmp_path) == ["--listen"]
    assert "--urlprefix" in complete("lcccp --", tmp_path)
    assert set(complete("lcc-export swi", tmp_path)) == {"swish-e", "swish++"}


def test_providers_are_completed_where_there_is_a_database(lcc: Lcc) -> None:
    for name in ("one", "two"):
        lcc.admin("provider", "add", "--root", f"http://{name}.example.org/")
    config = f"lcc-admin --config {lcc.config_path}"
    assert complete(f"{config} provider show ", lcc.folder) == ["1", "2"]
    assert complete(f"{config} urls --provider 2", lcc.folder) == ["2"]
    lcc.config_path.write_text("surprise = 1\n")
    assert complete(f"{config} provider show ", lcc.folder) == []


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_shells_take_the_script(shell: str, tmp_path: Path) -> None:
    text = script(shell)
    for name in PROGRAMS:
        assert variable(name) in text
    if shell == "bash":
        names = "complete -p " + " ".join(PROGRAMS)
        done = subprocess.run(["bash", "-c", f"{text}\n{names}"], capture_output=True, text=True, check=True)
        assert len(done.stdout.splitlines()) == len(PROGRAMS) and done.stderr == ""


def test_manual_pages_are_sound(tmp_path: Path) -> None:
    made = dict(pages())
    assert {"lcc-admin", "lcc-admin-provider-add", "lcccp", "lcc-qm", "lcc-export-tar.gz"} <= made.keys()
    for name, text in made.items():
        (tmp_path / f"{name}.1").write_text(text)
    # All at once: roff's own faults and warnings go to stderr.
    command = ["groff", "-ww", "-man", "-Tutf8", "-Kutf8", "-z", *sorted(map(str, tmp_path.glob("*.1")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-c", tmp_path / "lcccp.1"], capture_output=True, text=True, check=True
    ).stdout
    shown = re.sub(".\x08", "", shown)  # bold is printed twice
    for part in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "EXIT STATUS", "--pwd-file", "rejected by the LCC"):
        assert part in shown, part


def test_each_exception_of_ours_is_of_the_table() -> None:
    """So that what its user is shown has a next step."""
    kinds = [LccError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert kind.code is LccError.code, f"{kind}: a code that is not of the table has no next step"
    assert len(kinds) >= 5


def test_what_ends_a_command_says_what_to_do_next() -> None:
    """The second argument is there by its type; here: it says something."""
    found = 0
    kinds = {"Failed", *(kind.__name__ for kind in Failed.__subclasses__())}
    of_room = {"admin": kinds, "export": kinds, "provider": {"Fault", "BadInput"}}
    for path, kinds in [(each, of_room[room]) for room in of_room for each in ROOT.glob(f"lcc/{room}/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                found += 1
                assert len(node.args) == 2, f"{path}:{node.lineno}"
                if isinstance(node.args[1], ast.Constant):
                    assert len(str(node.args[1].value)) > 8, f"{path}:{node.lineno}"
    assert found > 50


def test_a_next_step_is_shown(lcc: Lcc) -> None:
    shown = lcc.admin("provider", "show", "7", code=1).stderr
    assert shown == "Error: there is no provider 7\nNext: lcc-admin provider list shows all providers\n"
    told = lcc.admin("explain", "1408").stdout
    assert "1408 mimetype-mismatch" in told and f"Next: {ADVICE[1408]}." in told
    assert json.loads(lcc.admin("explain", "404", "--json").stdout)["next"] == advice(404)
    for wrong in ("1999", "9" * 5000, "no-such-name"):
        assert "neither an HTTP status nor an error code" in lcc.admin("explain", wrong, code=2).stderr
    assert "(1001 to 1005, 1010 to 1015, 1101" in " ".join(lcc.admin("explain", "9999", code=2).stderr.split())
    assert "lcc-admin provider list" in lcc.admin("provider", "show", "x", code=2).stderr


def shown_by(words: list[str], folder: Path, text: str = "") -> tuple[int, list[str]]:
    """The exit code of a program, and the lines that it shows on standard error."""
    done = subprocess.run(
        [BIN / words[0], *words[1:]], cwd=folder, input=text, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr.splitlines()


LCCCP = ["lcccp", "--uns=127.0.0.1:1", "--pid=1", "--pwd-file=password"]


@pytest.mark.parametrize(
    ("words", "text", "code", "wrong", "then"),
    [
        (["file2url", "--find", "nowhere"], "", 1, "nowhere does not exist", "check that the folder exists"),
        (["file2url", "nothing.html"], "", 1, "nothing.html does not exist", "give existing files"),
        (["file2url"], "../x", 1, "outside the docroot", "set --docroot"),
        (["lcccpstate", "--statefile=no/state"], "", 1, "no/state.lock: No such file", "exists, is writable"),
        (["lcccpstate", "--statefile=s"], "<url c='a'/>", 1, "has no end mark", "use --no-end-mark"),
        (["lcccpstate", "--statefile=password", "--no-end-mark"], "", 1, "is not a state file", "check --statefile"),
        (["lcccpstate", "--statefile=s", "--no-end-mark"], "<url/>", 1, "no conceptual URL", "with file2url"),
        (LCCCP, "hello", 2, "'hello' is not a <url", "with file2url"),
        ([*LCCCP, "--full", "--no-end-mark"], "", 2, "deletes the whole site", "--allow-mass-delete"),
        ([*LCCCP, "--check"], "", 4, "cannot connect", "check --uns"),
        ([*LCCCP, "--check", "--uns=no:such:thing"], "", 2, "neither HOST:PORT", "use HOST:PORT"),
        (["lcc-admin", "--config", "no.toml", "status"], "", 1, "no.toml: No such file", "--config no.toml init"),
        (["lcc-admin", "status"], "", 4, "no LCC here", "lcc-admin init"),
    ],
)
def test_tools_say_what_is_wrong_and_what_to_do(
    words: list[str], text: str, code: int, wrong: str, then: str, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("secret\n")
    ended, lines = shown_by(words, tmp_path, text)
    assert ended == code
    assert any(wrong in line for line in lines), lines
    speaker = "Next: " if words[0] == "lcc-admin" else f"{words[0]}: next: "
    assert [line for line in lines if then in line and line.startswith(speaker)], lines


@pytest.mark.parametrize(
    ("words", "error", "following"),
    [
        ("lcc-admin statsu", "No such command 'statsu'. Did you mean 'status' or 'task'?", "lcc-admin"),
        ("lcc-admin provider shwo", "No such command 'shwo'. Did you mean 'show'?", "lcc-admin provider"),
        ("lcc-admin why", "Missing argument 'URL'.", "lcc-admin why"),
        ("lcc-export lucen", "No such command 'lucen'. Did you mean 'lucene'?", "lcc-export"),
        ("lcc-job xyzzy", "No such command 'xyzzy'.", "lcc-job"),
        ("lcccp --pid", "Option '--pid' requires an argument.", "lcccp"),
        ("lcccpstate", "Missing option '--statefile'.", "lcccpstate"),
        ("lccwatch", "Missing argument 'FOLDERS...'.", "lccwatch"),
        ("file2url --prefix", "No such option '--prefix'.", "file2url"),
    ],
)
def test_a_usage_error_says_where_the_help_is(words: str, error: str, following: str) -> None:
    name, *arguments = words.split()
    done = subprocess.run([BIN / name, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2:] == [f"Error: {error}", f"Next: {following} --help"]


def test_a_terminal_that_does_not_have_a_character_ends_nothing() -> None:
    text = "from lcc.commands.errors import replace_unencodable_output as speak; speak(); print('\\u2026 and more')"
    environment = dict(os.environ, PYTHONIOENCODING="ascii")
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "? and more\n"


@pytest.mark.parametrize("words", [["lcc-admin", "config", "--defaults"], ["lcc-export", "--help"]])
def test_an_output_that_takes_nothing(words: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [BIN / words[0], *words[1:]], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Error: cannot write the output: No space left on device" and lines[1].startswith("Next: ")
    assert len(lines) == 2


WATCH_SECONDS_MAX = 60.0


def _interruptible() -> None:
    """A background job of a shell ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[Any]) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_watching_in_a_pipe_gives_plain_blocks(lcc: Lcc) -> None:
    command = [BIN / "lcc-admin", "--config", lcc.config_path, "status", "--watch", "--every", "0.1"]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_interruptible
        ) as process,
        _killed_after(WATCH_SECONDS_MAX, process),
    ):
        assert process.stdout is not None and process.stderr is not None
        blocks = 0
        while blocks < 3:
            line = process.stdout.readline()
            assert "\x1b" not in line
            blocks += line.startswith("database ")
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 0 and process.stderr.read() == ""


def test_watching_on_a_terminal_redraws(lcc: Lcc) -> None:
    end, slave = pty.openpty()
    command = [BIN / "lcc-admin", "--config", lcc.config_path, "status", "--watch", "--every", "0.1"]
    environment = dict(os.environ, TERM="xterm", COLUMNS="100", LINES="40")
    with (
        subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, preexec_fn=_interruptible
        ) as process,
        _killed_after(WATCH_SECONDS_MAX, process),
    ):
        os.close(slave)
        shown = b""
        while shown.count(b"none has run yet") < 3:
            shown += os.read(end, 65536)
        process.send_signal(signal.SIGINT)
        try:
            while piece := os.read(end, 65536):
                shown += piece
        except OSError:
            pass  # the other end is closed
        assert process.wait() == 0
    os.close(end)
    # The alternate screen, left again; the cursor is back.
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l") and b"Traceback" not in shown


def test_a_terminal_obeys_nobody() -> None:
    assert clean("one\ntwo\x1b[2J\x9b") == "one\ntwo\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}"


def test_top_without_anybody(lcc: Lcc) -> None:
    assert "no queue manager has run yet" in lcc.admin("top", "--once").stdout
    assert "no queue manager has run yet" in lcc.admin("top").stdout  # which is no terminal here
    answer = json.loads(lcc.admin("top", "--once", "--json").stdout)
    assert answer["fetching"] == [] and answer["time"] <= time.time()


def test_who_watches_sees_how_far_it_has_come(tmp_path: Path) -> None:
    """On standard error and on a terminal only: what goes into a pipe is what it always was."""
    for number in range(40):
        (tmp_path / f"{number}.html").write_text("x")
    command = [BIN / "file2url", "--find", tmp_path, "-name", "*.html"]
    end, slave = pty.openpty()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=slave, env=dict(os.environ, TERM="xterm")
    ) as process:
        os.close(slave)
        assert process.stdout is not None
        watched = process.stdout.read()
        seen = b""
        try:
            while piece := os.read(end, 65536):
                seen += piece
        except OSError:
            pass  # the other end is closed
        assert process.wait() == 0
    os.close(end)
    assert b"reading files" in seen and b"\x1b[?25h" in seen
    # Who sees the files themselves needs no count of them.
    with NarrowTerminal(list(map(str, command)), dict(os.environ, TERM="xterm"), columns=200, lines=50) as terminal:
        assert terminal.end() == 0
        assert b"39.html" in terminal.shown and b"reading files" not in terminal.shown
    plain = subprocess.run(command, capture_output=True, check=True)
    assert plain.stderr == b"" and sorted(plain.stdout.splitlines()) == sorted(watched.splitlines())
