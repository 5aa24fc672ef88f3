"""Looks after writes that have failed though the database has committed them, or that nobody waited for.

The answer to a commit may be lost with the connection, and a write may be cancelled because whatever asked for it has
ended.  Most are made again, and then tell what the first attempt has queued.  Where nothing is left to be done,
nobody makes them again: the rows would stay in the queue, unknown to the scheduler, until the next write tells of
them, perhaps for hours.  So once a second the store is asked whether there is such a write.
"""

from __future__ import annotations

from lcc.roles.qm.part import Part


class UnconfirmedWrites(Part):
    """Has the scheduler told what they have queued."""

    ASKS_AGAIN = False
    ERROR_TEXT = "Cannot find out what unconfirmed writes have queued"

    def tick(self) -> None:
        """Called every second."""
        if self._store.has_unconfirmed:
            self._begin(self._tell)

    async def _tell(self) -> None:
        self._hub.absorbed(await self._store.tell_unconfirmed(self._hub.now()))
