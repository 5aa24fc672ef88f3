"""A program at a terminal of some size."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from types import TracebackType

PATIENCE_SECONDS = 120.0
_BETWEEN = re.compile(rb"[\r\n]|\x1b\[[0-9;?]*[A-Za-z]")


class NarrowTerminal:
    """A context manager: at its end the program is killed, if it still runs.

    :ivar shown: all that it has written so far.
    """

    def __init__(self, command: list[str], environment: dict[str, str], *, columns: int, lines: int) -> None:
        self._end, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.shown = b""
        # Shells in the background ignore Ctrl-C, and so would it.
        heeding = ["env", "--default-signal=INT", *command]
        self.process = subprocess.Popen(heeding, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)

    def __enter__(self) -> NarrowTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)

    def wait_for(self, words: bytes) -> None:
        """They are shown, on however many lines."""
        end = time.monotonic() + PATIENCE_SECONDS
        while words not in _BETWEEN.sub(b"", self.shown):
            assert time.monotonic() < end, self.shown[-2000:]
            assert self._read(1.0), self.shown[-2000:]

    def type(self, text: str) -> None:
        """Type this, and what ends the line."""
        os.write(self._end, f"{text}\n".encode())

    def end(self) -> int:
        """Read on to the program's end; gives its exit code."""
        while self._read(PATIENCE_SECONDS):
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._end], [], [], seconds)[0]:
            return self.process.poll() is None
        try:
            piece = os.read(self._end, 65536)
        except OSError:  # the other end is closed
            piece = b""
        self.shown += piece
        return bool(piece)
