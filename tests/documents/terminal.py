"""A person at a terminal: what is typed at a console over real SSH, and what comes back."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

PROMPT = ">>> "
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x1b[a-zA-Z=>]")


class Terminal:
    """A program at a pseudo-terminal of its own.

    :param patience_seconds: for each answer.
    """

    def __init__(
        self, command: list[str], folder: Path, environment: dict[str, str], patience_seconds: float = 120.0
    ) -> None:
        self._patience_seconds = patience_seconds
        self._end, slave = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment, start_new_session=True
        )
        os.close(slave)
        self.greeting = self._read()

    def type(self, line: str) -> str:
        """Type a line; gives what is shown until the next prompt, or the end."""
        os.write(self._end, line.encode() + b"\r")
        return self._read().removeprefix(line).removeprefix("\n")

    def close(self) -> int:
        """Wait for the program's end; gives its exit code."""
        try:
            return self.process.wait(self._patience_seconds)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self._end)

    def _read(self) -> str:
        data = b""
        end = time.monotonic() + self._patience_seconds
        while not clean(data).endswith(PROMPT):
            if not select.select([self._end], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"no prompt: {data!r}")
            try:
                piece = os.read(self._end, 65536)
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                return clean(data)
            data += piece
        return clean(data).removesuffix(PROMPT)


def clean(data: bytes) -> str:
    """What a person would see of it."""
    return _ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n").replace("\r", "")
