"""Looks into a package as it passes: is it complete, and what does its end mark say?"""

from __future__ import annotations

import json
import zlib
from typing import Any

TAIL_BYTES = 1 << 14
"""More than any end mark and what follows it."""


STEP_BYTES = 1 << 18
"""Unpacked at a time."""


class NotComplete(Exception):
    """The package has no end mark."""


class EndMark:
    """Reads the end of a package without holding more than its last bytes.

    :param compressed: it is gzip, of one member or many; what is damaged on the way is noticed then.
    """

    def __init__(self, compressed: bool) -> None:
        self._opener = _opener() if compressed else None
        self._tail = b""

    def take(self, piece: bytes) -> None:
        """The next bytes of the package.

        :raises NotComplete: this is no gzip.
        """
        if self._opener is None:
            self._keep(piece)
            return
        opener = self._opener
        try:
            while True:
                if opener.eof:
                    if not piece:
                        return
                    opener = self._opener = _opener()
                data = opener.decompress(piece, STEP_BYTES)
                self._keep(data)
                piece = opener.unused_data if opener.eof else opener.unconsumed_tail
                if not piece and len(data) < STEP_BYTES:
                    return
        except zlib.error as error:
            raise NotComplete(f"the package is damaged: {error}") from None

    def read(self) -> dict[str, Any]:
        """What the end mark says (:meth:`lcc.roles.cu.packages.packing.Packing.end`).

        :raises NotComplete: there is none.
        """
        if self._opener is None or self._opener.eof:
            # The last member of a tar, with the zeros behind it; the last record of a WARC.
            line = self._tail.rstrip(b"\0\r\n").rpartition(b"\0")[2].rpartition(b"\n")[2]
            try:
                end = json.loads(line)
                if isinstance(end, dict) and "next" in end:
                    return end
            except ValueError:
                pass
        raise NotComplete("the package lacks its end mark")

    def _keep(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL_BYTES:] if len(data) < TAIL_BYTES else data[-TAIL_BYTES:]


def _opener() -> Any:
    return zlib.decompressobj(zlib.MAX_WBITS + 16)
