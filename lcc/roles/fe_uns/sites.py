"""Which sub-LCC a site that is to be watched goes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from twisted.internet.defer import Deferred, FirstError, gatherResults

from lcc.domain.frontend.sub_lccs import with_most_room
from lcc.model.frontend.places import SubLcc, SubState
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.sites import claim_site
from lcc.storage.fe.sublccs import list_sublccs, list_vitals
from lcc.storage.providers.watched import OwnerRank, left_provider, owner_of_site

_LOOKS = 2
"""A provider that moves between two databases may be seen in neither, once."""


class _Seen(NamedTuple):
    """What a sub-LCC knows of a site.

    :ivar owner: of several sub-LCCs' the least has it; None: none here.
    :ivar left: its provider was here, and has moved.
    """

    owner: OwnerRank | None
    left: bool


class SiteHomes:
    """
    :param front: the front end's database.
    :param databases: of the sub-LCCs.
    :param stale_seconds: a sub-LCC that has not reported for so long gets no new providers.
    :param now: whole seconds since 1970.
    """

    def __init__(self, front: Database, databases: SubDatabases, stale_seconds: int, now: Callable[[], int]) -> None:
        self._front = front
        self._databases = databases
        self._stale = stale_seconds
        self._now = now

    def choose(self, root: str) -> Deferred[SubLcc | None]:
        """The sub-LCC that has a provider for this site, else the one with the most free room; None: none has room.

        :param root: normalised.
        :raises StoreUnavailable: (as the Deferred's failure) the front end's database, or that of a sub-LCC, cannot
            be reached: nobody can say whether it has the site.
        """
        return Deferred.fromCoroutine(self._choose(root))

    async def _choose(self, root: str) -> SubLcc | None:
        found: list[SubLcc] = await self._front.select(list_sublccs)
        subs = [sub for sub in found if sub.state is not SubState.REMOVED]
        left: list[SubLcc] = []
        for _ in range(_LOOKS):
            seen = await self._look(subs, root)
            having = [(each.owner, sub) for each, sub in zip(seen, subs, strict=True) if each.owner is not None]
            if having:
                return min(having, key=lambda each: each[0])[1]
            left = [sub for each, sub in zip(seen, subs, strict=True) if each.left]
            if not left:
                break
        # One that a site has left watches it no more; its provider has been removed elsewhere.
        taking = {sub.subid: sub for sub in subs if sub.notifiers and sub not in left}
        best = with_most_room(taking.values(), await self._front.select(list_vitals), self._now(), self._stale)
        if best is None:
            return None
        claiming = root, best.subid, self._now(), [sub.subid for sub in left]
        return taking.get(await self._front.write(claim_site, *claiming), best)

    async def _look(self, subs: Sequence[SubLcc], root: str) -> list[_Seen]:
        asking = [self._databases.of(sub).interact(_site, root) for sub in subs]
        try:
            seen: list[_Seen] = await gatherResults(asking, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
        return seen


def _site(txn: Txn, root: str) -> _Seen:
    # In this order: what leaves in between is found in one of the two places.
    return _Seen(owner_of_site(txn, root), left_provider(txn, root) is not None)
