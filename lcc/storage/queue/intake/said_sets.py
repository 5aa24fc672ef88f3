"""Which sets of notifiers are applied (``notifierpos``), by the ids that the notifiers gave them.

A UNS that is killed forgets which sets of a notifier it has passed on; the notifier tells them again, and they come
with other numbers of the UNS.  What is applied is known here by the notifier's own numbers, as ranges, because sets
may overtake each other on the way through several UNSes, and rejected ones never come.  Over a front end, sets
between two of them go to other sub-LCCs, and one of these may come here yet, if its provider moves.  So none is taken
for applied that was not (:attr:`lcc.protocols.notifiers.SetBegin.gaps`).

Only the last ranges are kept.  What was forgotten would be applied once more, which does no harm but a fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lcc.model import SetHeader
from lcc.model.notifiers import NoticeId
from lcc.model.number_ranges import NumberRanges
from lcc.storage.database.transactions import Question, Txn

EPOCHS_MAX = 4
"""Of one notifier that are remembered."""
_SELECT = "SELECT numbers FROM notifierpos WHERE notifier = ? AND epoch = ?"


def said_questions(headers: Iterable[SetHeader]) -> list[Question]:
    """The queries for :class:`SaidSets`."""
    return [Question(_SELECT, None, stream) for stream in _streams(headers)]


class SaidSets:
    """Which sets of some notifiers are applied.

    :param headers: of sets, whoever told them.
    :param answers: to :func:`said_questions`.
    """

    def __init__(self, txn: Txn, headers: Iterable[SetHeader], answers: Iterable[Sequence[tuple[Any, ...]]]) -> None:
        self._txn = txn
        self._ranges: dict[tuple[bytes, bytes], NumberRanges] = {}
        self._new: set[tuple[bytes, bytes]] = set()
        self._changed: set[tuple[bytes, bytes]] = set()
        for stream, rows in zip(_streams(headers), answers, strict=True):
            self._ranges[stream] = NumberRanges(rows[0][0].decode() if rows else "")
            if not rows:
                self._new.add(stream)

    def is_applied(self, said: NoticeId | None) -> bool:
        """Whether the set of this id is applied."""
        return said is not None and said.number in self._ranges[_stream(said)]

    def finish(self, said: NoticeId | None) -> None:
        """The set of this id is applied."""
        if said is not None:
            stream = _stream(said)
            self._ranges[stream].add(min(said.after + 1, said.number), said.number)
            self._changed.add(stream)

    def save(self, now: int) -> None:
        """Write what has changed."""
        rows = [(*stream, str(self._ranges[stream]).encode(), now) for stream in sorted(self._changed)]
        self._txn.upsert("notifierpos", ("notifier", "epoch", "numbers", "time"), rows, ("notifier", "epoch"))
        for stream in sorted(self._changed & self._new):
            self._forget_epochs(*stream)

    def _forget_epochs(self, notifier: bytes, newest: bytes) -> None:
        sql = "SELECT epoch FROM notifierpos WHERE notifier = ? AND epoch <> ? ORDER BY time DESC, epoch"
        for (epoch,) in self._txn.query(sql, [notifier, newest])[EPOCHS_MAX - 1 :]:
            self._txn.execute("DELETE FROM notifierpos WHERE notifier = ? AND epoch = ?", [notifier, epoch])


def merge_said(txn: Txn, rows: Iterable[tuple[bytes, bytes, bytes, int]]) -> None:
    """What is applied where a provider has been is applied here as well.

    :param rows: of ``notifierpos`` there.
    """
    for notifier, epoch, numbers, time in rows:
        known = txn.one("SELECT numbers, time FROM notifierpos WHERE notifier = ? AND epoch = ?", [notifier, epoch])
        ranges = NumberRanges("" if known is None else known[0].decode())
        for first, last in NumberRanges(numbers.decode()).pairs:
            ranges.add(first, last)
        row = (notifier, epoch, str(ranges).encode(), time if known is None else max(time, known[1]))
        txn.upsert("notifierpos", ("notifier", "epoch", "numbers", "time"), [row], ("notifier", "epoch"))


def _stream(said: NoticeId) -> tuple[bytes, bytes]:
    return said.notifier.encode(), said.epoch.encode()


def _streams(headers: Iterable[SetHeader]) -> list[tuple[bytes, bytes]]:
    """Distinct notifiers and epochs, in their order."""
    return list(dict.fromkeys(_stream(header.said) for header in headers if header.said is not None))
