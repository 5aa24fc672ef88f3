"""Which sub-LCC a site that is to be watched goes to."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, FirstError, gatherResults

from lcc.domain.frontend import with_most_room
from lcc.model.frontend import SubLcc, SubState
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.database import Database
from lcc.storage.fe.sites import claim_site
from lcc.storage.fe.sublccs import list_sublccs, list_vitals
from lcc.storage.providers.watched import OwnerRank, owner_of_site


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
        asking = [self._databases.of(sub).interact(owner_of_site, root) for sub in subs]
        try:
            owners: list[OwnerRank | None] = await gatherResults(asking, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
        having = [(owner, sub) for owner, sub in zip(owners, subs, strict=True) if owner is not None]
        if having:
            return min(having, key=lambda each: each[0])[1]
        taking = {sub.subid: sub for sub in subs if sub.notifiers}
        best = with_most_room(taking.values(), await self._front.select(list_vitals), self._now(), self._stale)
        if best is None:
            return None
        return taking.get(await self._front.write(claim_site, root, best.subid, self._now()), best)
