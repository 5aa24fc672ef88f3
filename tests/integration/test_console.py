"""doc/console.md as it stands: its configuration, its transcripts, over real SSH to real processes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .system import BIN, System, wait_for
from .terminal import PROMPT, Terminal

DOCUMENT = Path(__file__).parents[2] / "doc" / "console.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\b[0-9a-f]{16}\b|\d[\d,.]*")


def blocks(kind: str) -> list[str]:
    """The document's examples of one kind."""
    return [text for found, text in _BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")) if found == kind]


def alike(text: str, home: Path) -> list[str]:
    """Lines, without what differs from run to run: numbers, places, ages."""
    text = text.replace(str(home), "/var/lib/lcc")
    text = re.sub(r"http://127\.0\.0\.1:\d+/site/", "http://www.example.org/", text)
    text = re.sub(r"/[abc]\.html", "/a.html", text)  # in the order in which they were found
    text = _NUMBER.sub("N", text)
    text = re.sub(r"N (seconds?|minutes|hours)", "N s", text)
    text = re.sub(r" +", " ", text)
    return [line.rstrip() for line in text.strip().splitlines()]


class Reader:
    """Plays a transcript: ``$`` lines are run, ``>>>`` lines are typed, ``#`` lines are what happens meanwhile."""

    def __init__(self, system: System, key: Path) -> None:
        self.system = system
        self.key = key
        self.terminal: Terminal | None = None
        self.site = system.add_site("site")
        self.environment = dict(system.environment, PATH=f"{BIN}:{os.environ['PATH']}")

    def run(self, line: str) -> str:
        """Gives what is shown."""
        mark, _, rest = line.partition(" ")
        if mark == "#":
            self._happens(rest)
            return ""
        if mark == ">>>":
            assert self.terminal is not None
            shown = self.terminal.type(rest)
            if rest == "exit()":
                assert self.terminal.close() == 0
                self.terminal = None
                shown = ""
            return shown
        assert mark == "$", line
        words = rest.replace("lcc-admin console", f"lcc-admin console --identity {self.key}", 1)
        if re.fullmatch(r"lcc-admin console \w+", rest):
            self.terminal = Terminal(words.split(), self.system.folder, self.environment)
            return self.terminal.greeting
        done = subprocess.run(
            words,
            shell=True,
            capture_output=True,
            text=True,
            cwd=self.system.folder,
            env=self.environment,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _happens(self, what: str) -> None:
        if what.startswith("a provider publishes"):
            self.system.publish_when_up(self.site)
            wait_for("the queue has it", lambda: "3 URLs" in self.system.admin("status"))
        elif what.startswith("a moment later"):
            wait_for("the state is saved", lambda: "PAUSED" in self.system.admin("status"))
        elif what.startswith("and all of it is fetched"):
            self.system.wait_cached(self.site)
        else:
            raise AssertionError(what)


def steps(transcript: str) -> Iterator[tuple[str, str]]:
    """What is done, and what is shown then."""
    line, shown = "", ""
    for text in transcript.splitlines(keepends=True):
        if text.startswith(("$ ", PROMPT, "# ")):
            if line:
                yield line, shown
            line, shown = text.rstrip("\n"), ""
        else:
            shown += text
    yield line, shown


@pytest.fixture
def database_url() -> None:
    """SQLite: the console does not know the difference."""


def test_the_transcripts(system: System, tmp_path: Path) -> None:
    pages = tmp_path / "www" / "site"
    pages.mkdir()
    for name in ("a", "b", "c"):
        (pages / f"{name}.html").write_text(f"<p>{name}</p>")
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (configuration,) = blocks("toml")
    text = system.config.read_text()
    for table in re.split(r"^(?=\[)", configuration, flags=re.MULTILINE):
        if table:
            heading, _, settings = table.partition("\n")
            text = text.replace(heading, f"{heading}\n{settings}") if heading in text else f"{text}\n{table}"
    system.config.write_text(text)
    home = system.folder / "home"
    (home / "manhole-keys").write_bytes(key.with_suffix(".pub").read_bytes())
    (home / "manhole-keys").chmod(0o600)
    system.start("qm", "botm", "bot", "uns")
    wait_for("the robot is there", lambda: "robots for 8" in system.admin("status"))
    reader = Reader(system, key)
    played = 0
    for transcript in blocks("console"):
        for line, expected in steps(transcript):
            shown = reader.run(line)
            if os.environ.get("LCC_TRANSCRIPT"):
                print(f"{line}\n{shown}", end="")
            else:
                assert alike(shown, home) == alike(expected, Path("/var/lib/lcc")), f"{line}\n{shown}"
            played += 1
    assert played >= 10
    listed = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True)
    assert f"(key {listed.stdout.split()[1]})" in system.log("qm")
    for name in list(system.processes):
        system.stop(name)
