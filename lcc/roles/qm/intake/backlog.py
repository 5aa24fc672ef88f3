"""What a UNS has sent and is not yet absorbed: in order, counted in elements and in bytes."""

from __future__ import annotations

from collections import deque

from lcc.model import SetPiece
from lcc.roles.qm.intake.arrivals import LostSet, Refusal

Parcel = SetPiece | Refusal | LostSet

_PARCEL_BYTES = 1000
"""What a parcel takes besides its elements, about."""


class Backlog:
    """The queue in front of one UNS's transactions.

    :ivar count: elements in it; a parcel counts as one, too.
    :ivar size_bytes: what it takes in memory, about.
    """

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self._parcels: deque[tuple[Parcel, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._parcels)

    @property
    def first(self) -> Parcel:
        """The next one; it stays."""
        return self._parcels[0][0]

    def has_some_of(self, pid: int) -> bool:
        """Whether there is a piece of a set of this provider."""
        return any(isinstance(parcel, SetPiece) and parcel.header.pid == pid for parcel, _ in self._parcels)

    def add(self, parcel: Parcel, notices_bytes: int = 0) -> None:
        """One more, behind all others.

        :param notices_bytes: what its elements take in memory.
        """
        self._parcels.append((parcel, notices_bytes))
        self.count += _count(parcel)
        self.size_bytes += notices_bytes + _PARCEL_BYTES

    def take(self) -> Parcel:
        """Take the next one out."""
        parcel, notices_bytes = self._parcels.popleft()
        self.count -= _count(parcel)
        self.size_bytes -= notices_bytes + _PARCEL_BYTES
        return parcel

    def take_batch(self, elements_max: int, bytes_max: int) -> list[SetPiece]:
        """As many pieces as one transaction takes, at least one, up to what is no piece."""
        pieces: list[SetPiece] = []
        count = size = 0
        while self._parcels:
            piece, notices_bytes = self._parcels[0]
            if not isinstance(piece, SetPiece):
                break
            count += len(piece.notices)
            size += notices_bytes
            if pieces and (count > elements_max or size > bytes_max):
                break
            self.take()
            pieces.append(piece)
        return pieces

    def clear(self) -> None:
        """Forget all of it."""
        self._parcels.clear()
        self.count = self.size_bytes = 0


def _count(parcel: Parcel) -> int:
    return len(parcel.notices) + 1 if isinstance(parcel, SetPiece) else 1
