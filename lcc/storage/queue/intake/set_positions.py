"""How far the sets of each UNS are applied (``setspos``), and what a complete set does to its provider."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from lcc.model import SetHeader, Source
from lcc.model.providers import ERROR_BITS
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.queue.write_transaction import WriteTransaction

_POSITION = ("last_number", "answered_number", "part_number", "part_psetid", "part_done")


@attrs.define
class _Position:
    last_number: int = 0
    answered_number: int = 0
    part_number: int = 0
    part_psetid: int = 0
    part_done: int = 0


_SELECT_POSITION = f"SELECT {', '.join(_POSITION)} FROM setspos WHERE uns = ? AND epoch = ?"


def position_questions(headers: Iterable[SetHeader]) -> list[Question]:
    """The queries for :class:`SetPositions`."""
    return [Question(_SELECT_POSITION, None, stream) for stream in _streams(headers)]


class SetPositions:
    """How far the sets of some UNSes are applied.

    :param headers: of these sets.
    :param answers: to :func:`position_questions`.
    """

    def __init__(self, txn: Txn, headers: Iterable[SetHeader], answers: Iterable[Sequence[tuple[Any, ...]]]) -> None:
        self._txn = txn
        self._positions: dict[tuple[bytes, bytes], _Position] = {}
        self._before: dict[tuple[bytes, bytes], tuple[Any, ...] | None] = {}
        self.new_psetids: set[int] = set()
        """Of sets that began here."""
        for key, rows in zip(_streams(headers), answers, strict=True):
            row = rows[0] if rows else None
            self._positions[key] = _Position(*row or ())
            self._before[key] = row

    def is_applied(self, header: SetHeader) -> bool:
        """Whether the set is completely applied."""
        return header.number <= self._positions[_stream(header)].last_number

    def has_begun(self, header: SetHeader) -> bool:
        """Whether elements of the set are applied, and others are not."""
        position = self._positions[_stream(header)]
        return position.part_number == header.number and position.part_done > 0

    def begin(self, header: SetHeader, first_index: int, new_psetid: Callable[[], int]) -> tuple[int, int]:
        """The set's psetid and how many of its elements are applied.

        :param first_index: of the piece to absorb.
        :raises ValueError: elements before it are missing.
        """
        position = self._positions[_stream(header)]
        if position.part_number != header.number:
            position.part_number, position.part_done = header.number, 0
            position.part_psetid = new_psetid()
            self.new_psetids.add(position.part_psetid)
        if first_index > position.part_done:
            raise ValueError(f"set {header.number}: elements {position.part_done} to {first_index} are missing")
        return position.part_psetid, position.part_done

    def advance(self, header: SetHeader, done: int) -> None:
        """Set the number of applied elements."""
        position = self._positions[_stream(header)]
        position.part_done = max(position.part_done, done)

    def finish(self, header: SetHeader) -> None:
        """The set is completely applied, or refused."""
        position = self._positions[_stream(header)]
        position.last_number = max(position.last_number, header.number)
        position.answered_number = max(position.answered_number, position.last_number)
        if position.part_number <= position.last_number:
            position.part_number = position.part_psetid = position.part_done = 0

    def save(self) -> None:
        """Write what has changed."""
        rows = []
        for key, position in self._positions.items():
            values = tuple(getattr(position, name) for name in _POSITION)
            if values != self._before[key]:
                rows.append((*key, *values))
        self._txn.upsert("setspos", ("uns", "epoch", *_POSITION), rows, ("uns", "epoch"))


def _stream(header: SetHeader) -> tuple[bytes, bytes]:
    return header.uns.encode(), header.epoch.encode()


def _streams(headers: Iterable[SetHeader]) -> list[tuple[bytes, bytes]]:
    """Distinct streams, in their order."""
    return list(dict.fromkeys(map(_stream, headers)))


@attrs.frozen
class Finished:
    """A set that is complete."""

    header: SetHeader


def finish_set(write: WriteTransaction, header: SetHeader, now: int, full_set_period: int) -> None:
    """Update the provider's statistics after a completely applied set of its own: clear the errors that its session
    was shown; count an unsolicited full set; end the request that a solicited one answers.

    :param full_set_period: seconds after which the count of full sets starts over.
    """
    if header.source != Source.TOLD:
        return
    stats = write.stats(header.pid)
    stats.last_set_time = now
    cleared = min(header.errors_upto, stats.errseq)
    # Else it was shown errors before the database was restored, and others have taken their numbers.
    is_current = header.errors_upto >> ERROR_BITS == stats.errseq >> ERROR_BITS
    if is_current and cleared > stats.errcleared:
        stats.errcleared = cleared
        write.txn.execute("DELETE FROM urlerrs WHERE pid = ? AND number > 0 AND number <= ?", [header.pid, cleared])
    if header.full:
        stats.last_full_time = now
        if header.wantid:
            if header.wantid == stats.wantid and header.connseq >= stats.fullconnseq:
                stats.wantfullset = ""
        else:
            if not 0 <= now - stats.fullsets_since < full_set_period:  # less: the wall clock was set back
                stats.fullsets_since, stats.fullsets_used = now, 0
            stats.fullsets_used += 1
