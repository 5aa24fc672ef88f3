"""The answer of a content port to a request for a batch: ``STATUS SIZE`` on a line, then so many bytes, for each file
in the order of the request.  The status is that of a request for this file alone; other than 200 means no bytes."""

from __future__ import annotations

import re

from lcc.errors import FetchError
from lcc.model.content_batches import FILE_BYTES_MAX
from lcc.numbers import parse_number

CONTENT_TYPE = "application/vnd.lococa.files"
TOO_LARGE = 413
"""The file is too large for a batch."""
_HEAD = re.compile(rb"([0-9]{3}) ([0-9]{1,5})\n", re.ASCII)
_HEAD_BYTES_MAX = 10
_DIGITS_MAX = 99_999


def write_file(status: int, content: bytes = b"") -> bytes:
    """A file as it stands there."""
    return b"%d %d\n%b" % (status, len(content), content)


class BatchReader:
    """Takes such an answer apart, however it is cut.

    :param count: files that were asked for.
    """

    def __init__(self, count: int) -> None:
        self._left = count
        self._buffer = b""

    def feed(self, data: bytes) -> list[bytes | None]:
        """The files that are complete with this; None: one that cannot be had.

        :raises FetchError: it is no such answer.
        """
        buffer = self._buffer + data if self._buffer else data
        found: list[bytes | None] = []
        at = 0
        while at < len(buffer):
            if not self._left:
                raise FetchError("bad-response", "more files than were asked for")
            head = _HEAD.match(buffer, at)
            if head is None:
                if len(buffer) - at >= _HEAD_BYTES_MAX or b"\n" in buffer[at:]:
                    raise FetchError("bad-response", "not the files of a batch")
                break
            status, size = (parse_number(digits.decode(), _DIGITS_MAX) for digits in head.groups())
            if size > FILE_BYTES_MAX or (size and status != 200):
                raise FetchError("bad-response", f"a file of {size} bytes, status {status}, in a batch")
            begin = head.end()
            if len(buffer) - begin < size:
                break
            at = begin + size
            found.append(buffer[begin:at] if status == 200 else None)
            self._left -= 1
        self._buffer = buffer[at:]
        return found

    def finish(self) -> None:
        """There is no more.

        :raises FetchError: files are missing.
        """
        if self._left or self._buffer:
            raise FetchError("early-eof", f"{self._left} files of the batch are missing")
