"""Plays the commands of a page, in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.documents import COMMANDS, Block, blocks_of, world_of

from .comparing import alike
from .shell import PATIENCE_SECONDS, Shell, commands
from .terminal import PROMPT, Terminal
from .worlds import WORLDS

PROMPTS = ("$ ", PROMPT, "# ")
MOMENT = "a moment later"
"""A comment in a transcript that says that what comes next may need several tries."""


class Player:
    """
    :ivar played: commands so far.
    :param tell: is told of each command and what it shows.
    """

    def __init__(self, shell: Shell, tell: bool = False) -> None:
        self._shell = shell
        self._tell = tell
        self._terminal: Terminal | None = None
        self.played = 0

    def page(self, page: Path) -> None:
        """Play a page.

        :raises AssertionError: a command fails, or shows something else.
        """
        WORLDS[world_of(page)](self._shell)
        for block in blocks_of(page):
            self.block(block)

    def block(self, block: Block) -> None:
        """Play a block, unless it is left out."""
        try:
            if block.left_out or self._shell.kind not in block.marks.get("shell", [self._shell.kind]):
                return
            for mark, how in (("file", "w"), ("more of", "a")):
                for name in block.marks.get(mark, []):
                    with (self._shell.folder / name).open(how, encoding="utf-8") as file:
                        file.write(block.text)
            if block.kind not in COMMANDS:
                return
            for command in block.marks.get("do", []):
                self._succeed(command)
            for condition in block.marks.get("until", []):
                self._shell.until(condition)
            if block.kind == "sh":
                for command in commands(block.text):
                    self._succeed(command)
            else:
                self._transcript(block.text)
        except AssertionError as error:
            raise AssertionError(f"{block}: {error}") from None

    def _succeed(self, command: str) -> None:
        code, shown = self._shell.run(command)
        self._told(command, shown)
        assert code == 0, f"{command}\nended with {code}:\n{shown}"

    def _transcript(self, text: str) -> None:
        patient = False
        found = list(steps(text))
        for (line, expected), (following, _) in zip(found, [*found[1:], ("", "")], strict=True):
            mark, _, rest = line.partition(" ")
            if mark == "#":
                patient = MOMENT in rest
                continue
            run = (
                self._typed if mark == PROMPT.strip() else self._opened if following.startswith(PROMPT) else self._run
            )
            shown = run(rest)
            end = time.monotonic() + (PATIENCE_SECONDS if patient else 0)
            while not alike(shown, expected) and time.monotonic() < end:
                time.sleep(0.1)
                shown = run(rest)
            self._told(line, shown)
            assert alike(shown, expected), f"{line}\nshows\n{shown}\ninstead of\n{expected}"
            patient = False

    def _run(self, command: str) -> str:
        code, shown = self._shell.run(command)
        return f"{shown.rstrip()}\n[exit code {code}]\n" if code else shown

    def _opened(self, command: str) -> str:
        self._terminal = Terminal(["bash", "-c", command], self._shell.folder, self._shell.environment)
        return self._terminal.greeting

    def _typed(self, line: str) -> str:
        assert self._terminal is not None
        shown = self._terminal.type(line)
        if line == "exit()":
            assert self._terminal.close() == 0
            self._terminal = None
            return ""
        return shown

    def _told(self, command: str, shown: str) -> None:
        self.played += 1
        if self._tell:
            print(f"\x1b[1m{command}\x1b[0m\n{shown}", end="", flush=True)


def steps(transcript: str) -> Iterator[tuple[str, str]]:
    """What is done, and what is shown then."""
    line, shown = "", ""
    for text in transcript.splitlines(keepends=True):
        if text.startswith("> ") and line and not shown:
            line += f"\n{text[2:].rstrip()}"
        elif text.startswith(PROMPTS):
            if line:
                yield line, shown
            line, shown = text.rstrip("\n"), ""
        else:
            shown += text
    yield line, shown
