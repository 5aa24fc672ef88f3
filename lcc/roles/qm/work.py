"""What the scheduler keeps of a provider that has its turn."""

from __future__ import annotations

from collections import deque

from lcc.model import Cursor, QueueRow

START = (0, 0)
"""The cursor before all rows."""


class ProviderWork:
    """An active provider.

    :ivar row: the row that :meth:`Scheduler.take` gave last.
    :ivar info: what the dispatcher needs to know of the provider; opaque here, set with the first rows.
    :ivar machine: where its last order went; for the dispatcher.
    :ivar busy: its orders that are being fetched: one at most, but for what an earlier queue manager sent out.
    :ivar doubt: the key of a result that will hold the provider back once it is recorded; nothing is sent meanwhile.
    :ivar buffer: rows read and not handed out, in queue order, all at or before ``cursor``.
    :ivar exhausted: the last read reached the end, and no work has come since.
    :ivar reading: the cursor of the read under way.
    :ivar rewind: where to rewind to once its rows have come.
    :ivar recent: keys and generations recorded while it is under way.
    """

    __slots__ = (
        "buffer",
        "busy",
        "cursor",
        "doubt",
        "exhausted",
        "gone",
        "in_line",
        "info",
        "machine",
        "pid",
        "psetid",
        "reading",
        "recent",
        "rewind",
        "row",
    )

    def __init__(self, pid: int, psetid: int) -> None:
        self.pid = pid
        self.psetid = psetid
        self.row: QueueRow | None = None
        self.info: object = None
        self.machine = 0
        self.busy = 0
        self.doubt: bytes | None = None
        self.in_line = False
        self.gone = False
        self.buffer: deque[QueueRow] = deque()
        self.cursor: tuple[int, int] = START
        self.exhausted = False
        self.reading: Cursor | None = None
        self.rewind: tuple[int, int] | None = None
        self.recent: dict[bytes, int] = {}
