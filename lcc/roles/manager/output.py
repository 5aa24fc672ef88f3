"""What a worker writes to its standard output and error: the first and the last of it."""

from __future__ import annotations

import re
from collections import deque

from lcc.model.tasks import OUTPUT_BYTES_MAX

# What XML cannot carry, or a terminal would obey; line ends and tabs stay.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
_LAST_LINE_CHARS = 300


class KeptOutput:
    """Keeps half of the limit from the beginning and half from the end.

    :param bytes_max: of the text, in UTF-8, all together.
    """

    def __init__(self, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._half = bytes_max // 2
        self._first = bytearray()
        self._last: deque[bytes] = deque()
        self._last_bytes = 0
        self.total_bytes = 0
        """That were written."""

    def add(self, data: bytes) -> None:
        """It has written this."""
        self.total_bytes += len(data)
        room = self._half - len(self._first)
        if room > 0:
            self._first += data[:room]
            data = data[room:]
        if data:
            data = data[-self._half :]
            self._last.append(data)
            self._last_bytes += len(data)
            while self._last_bytes - len(self._last[0]) >= self._half:
                self._last_bytes -= len(self._last.popleft())

    @property
    def text(self) -> str:
        """What is kept.  Bytes that are not UTF-8, and control characters, are escaped (``\\x1b``); where something
        is left out it says how much."""
        first, last = bytes(self._first), b"".join(self._last)[-self._half :]
        left_out = self.total_bytes - len(first) - len(last)
        if not left_out:
            return _cut(_escaped(first + last), 2 * self._half)
        note = f"\n[… {left_out:,} bytes left out …]\n"
        each = self._half - len(note.encode()) // 2 - 1
        return _cut(_escaped(first), each) + note + _cut_front(_escaped(last), each)

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        last = (b"".join(self._last) if self._last else bytes(self._first))[-4 * _LAST_LINE_CHARS :]
        lines = [line.strip() for line in _escaped(last).splitlines() if line.strip()]
        return lines[-1][-_LAST_LINE_CHARS:] if lines else ""


def _escaped(data: bytes) -> str:
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", data.decode("utf-8", "backslashreplace"))


def _cut(text: str, bytes_max: int) -> str:
    data = text.encode()
    return text if len(data) <= bytes_max else data[:bytes_max].decode("utf-8", "ignore")


def _cut_front(text: str, bytes_max: int) -> str:
    data = text.encode()
    return text if len(data) <= bytes_max else data[-bytes_max:].decode("utf-8", "ignore")
