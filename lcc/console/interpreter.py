"""Runs what an operator types: with bounded output, and without its errors reaching the role.

A command runs in the reactor's thread, so that it sees a consistent state.  One that blocks, blocks the role: the
operator's own risk (doc/console.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.conch.manhole import Manhole, ManholeInterpreter

from lcc.console.text import harmless

SOURCE_BYTES_MAX = 65536
"""All lines of a command."""


class Interpreter(ManholeInterpreter):
    """Runs commands; ``exit()`` in one ends the session, and anything else that it raises is shown.

    :param leave: ends the session.
    :ivar failed: a command raised an exception, or was invalid.
    """

    def __init__(self, handler: Any, namespace: dict[str, Any], leave: Callable[[], None]) -> None:
        super().__init__(handler, namespace)
        self.failed = False
        self._leave = leave

    def push(self, line: bytes) -> bool:
        """Take a line; True: more of them are needed."""
        if sum(map(len, self.buffer)) + len(line) > SOURCE_BYTES_MAX:
            self._refuse(f"a command has at most {SOURCE_BYTES_MAX} bytes")
            return False
        try:
            return bool(super().push(line))
        except SystemExit:
            self.resetBuffer()
            self._leave()
        except UnicodeDecodeError:
            self._refuse("not UTF-8")
        except Exception as error:  # what the compiler raises: too deep, too long, out of memory
            self._refuse(f"{type(error).__name__}: {error}")
        return False

    def excepthook(self, *what: Any) -> None:
        self.failed = True
        super().excepthook(*what)

    def showsyntaxerror(self, *args: Any, **options: Any) -> None:
        self.failed = True
        super().showsyntaxerror(*args, **options)

    def _refuse(self, why: str) -> None:
        self.failed = True
        self.resetBuffer()
        self.write(f"{why}\n")


class Bounded:
    """Limits the output of a command.

    :param bytes_max: of one command.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left = bytes_max
        self._told = False

    def begin(self) -> None:
        """A command begins."""
        self._left = self._bytes_max
        self._told = False

    def cut(self, text: object) -> bytes:
        """The part of this output to show."""
        if self._told:
            return b""
        # Cut first: it may be far too long.
        data = harmless(str(text)[: self._left + 1]).encode("utf-8", "backslashreplace")
        if len(data) <= self._left:
            self._left -= len(data)
            return data
        shown, self._left, self._told = data[: self._left], 0, True
        note = f"\n… truncated: a command shows at most {self._bytes_max} bytes ([manhole] output_bytes_max)\n"
        return shown.decode("utf-8", "ignore").encode() + note.encode()


class Console(Manhole):
    """A session at a terminal.

    :param greeting: shown first.
    """

    def __init__(self, namespace: dict[str, Any], bytes_max: int, greeting: str) -> None:
        super().__init__(namespace)
        self._bounded = Bounded(bytes_max)
        self._greeting = greeting
        self._gone = False

    def gone(self) -> None:
        """The operator is gone; a Deferred may still have output."""
        self._gone = True

    def connectionMade(self) -> None:
        super().connectionMade()
        self.interpreter = Interpreter(self, self.namespace or {}, self.terminal.loseConnection)

    def initializeScreen(self) -> None:
        """Print the greeting below what the terminal shows."""
        self.terminal.write(self._greeting.encode())
        self.terminal.nextLine()
        self.terminal.write(self.ps[self.pn])
        self.setInsertMode()

    def terminalSize(self, width: int, height: int) -> None:
        """The terminal has this size; nothing is redrawn."""
        self.width, self.height = width, height

    def characterReceived(self, ch: bytes, moreCharactersComing: bool | None) -> None:
        if len(self.lineBuffer) < SOURCE_BYTES_MAX:
            super().characterReceived(ch, moreCharactersComing)

    def lineReceived(self, line: bytes) -> None:
        self._bounded.begin()
        super().lineReceived(line)

    def addOutput(self, data: object, isAsync: bool | None = None) -> None:
        shown = self._bounded.cut(data)
        if shown and not self._gone:
            super().addOutput(shown, isAsync)


class OneCommand:
    """A command given to ssh, without a terminal.

    :param write: takes the output.
    :param ended: called once with the exit code: 0, or 1 if it failed or was invalid.
    """

    def __init__(
        self, namespace: dict[str, Any], bytes_max: int, write: Callable[[bytes], None], ended: Callable[[int], None]
    ) -> None:
        self._write = write
        self._ended = ended
        self._bounded = Bounded(bytes_max)
        self._written = b"\n"
        self._interpreter = Interpreter(self, namespace, lambda: None)

    def run(self, command: bytes) -> None:
        """Run it."""
        interpreter = self._interpreter
        for line in [*command.split(b"\n"), b""]:
            more = interpreter.push(line)
        if more:
            self.addOutput("incomplete command\n")
        if not self._written.endswith(b"\n"):
            self._write(b"\n")
        self._write = lambda _: None  # a Deferred may still call back
        self._ended(1 if more or interpreter.failed else 0)

    def addOutput(self, data: object, isAsync: bool | None = None) -> None:
        """Called by the interpreter."""
        shown = self._bounded.cut(data)
        if shown:
            self._written = shown
            self._write(shown)
