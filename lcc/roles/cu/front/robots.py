"""What robots.txt of sites say, over several sub-LCCs.

A site may have providers in any of them, so all are asked who has roots there.  The rules come from the sub-LCC of
the provider that counts most, if its scheduler has read them, else from one that has.  What nobody polls is ordered
there, if this process may write; if not, the schedulers poll watched sites all the same.  While a sub-LCC is away,
the answer fails: a root there might count more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from lcc.model.frontend.places import SubLcc
from lcc.roles.cu.front.asking import all_of
from lcc.roles.cu.front.subs import Sub, Subs
from lcc.roles.cu.site_robots import AskedSite, Roots, robots_line, robots_lines
from lcc.roles.loops import LogLimit
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.watched import owners_of_sites, ranked_roots
from lcc.storage.tasks.polling.robots import read_robots

_log = Logger()

Order = Callable[[SubLcc, Sequence[str]], Deferred[Any]]
_Owners = set[tuple[str, bool, int]]


class FrontRobots:
    """See :mod:`lcc.roles.cu.front.robots`.

    :param order: orders that a sub-LCC's scheduler polls robots.txt of these sites.
    """

    def __init__(self, subs: Subs, order: Order, clock: IReactorTime) -> None:
        self._subs = subs
        self._order = order
        self._log_limit = LogLimit(clock)

    async def lines(self, asked: Sequence[AskedSite], pids: Collection[int] | None) -> list[bytes]:
        """As :meth:`lcc.roles.cu.cache.Cache.robots`."""
        subs = await self._subs.some()
        sites = sorted({each.site for each in asked})
        found: Sequence[dict[str, _Owners]] = await all_of(
            [self._subs.ask(sub, owners_of_sites, sites, pids) for sub in subs]
        )
        roots, homes = _joined(subs, found)
        visible = sites if pids is None else sorted(roots)
        polling = [sub for sub in subs if self._subs.tasks(sub) is not None]
        checked: Sequence[dict[str, int]] = await all_of(
            [self._subs.ask_tasks(sub, _checked_times, visible) for sub in polling]
        )
        knowing = _knowing(homes, list(zip(polling, checked, strict=True)))
        lines = [robots_line(each, None, roots) if each.site not in knowing else b"" for each in asked]
        by_sub: defaultdict[int, list[int]] = defaultdict(list)
        for place, each in enumerate(asked):
            if each.site in knowing:
                by_sub[knowing[each.site].subid].append(place)
        for sub in polling:
            places = by_sub[sub.subid]
            if not places:
                continue
            some = [asked[place] for place in places]
            told, _ = await self._subs.ask_tasks(sub, robots_lines, some, {each.site for each in some}, roots)
            for place, line in zip(places, told, strict=True):
                lines[place] = line
        for sub in polling:
            wanted = [site for site in roots if site not in knowing and homes[site] is sub]
            if wanted:
                await self._ask_for(sub, wanted)
        return lines

    async def _ask_for(self, sub: Sub, sites: Sequence[str]) -> None:
        try:
            await self._order(sub.known, sites)
        except Exception as error:
            if self._log_limit.allows(sub.known.name):
                _log.warn(
                    "Cannot order sub-LCC {name} to poll robots.txt of {site}: {error}",
                    name=sub.known.name,
                    site=sites[0],
                    error=str(error),
                )


def _joined(subs: Iterable[Sub], found: Iterable[Mapping[str, _Owners]]) -> tuple[Roots, dict[str, Sub]]:
    """What providers have on each site, and the sub-LCC of the one that counts most."""
    owners: defaultdict[str, _Owners] = defaultdict(set)
    sub_of: dict[tuple[str, int], Sub] = {}
    for sub, there in zip(subs, found, strict=True):
        for site, some in there.items():
            owners[site] |= some
            sub_of.update(((root, pid), sub) for root, _, pid in some)
    roots = {site: ranked_roots(some) for site, some in sorted(owners.items())}
    return roots, {site: sub_of[ranked[0]] for site, ranked in roots.items()}


def _knowing(homes: Mapping[str, Sub], checked: Sequence[tuple[Sub, Mapping[str, int]]]) -> dict[str, Sub]:
    """Whose scheduler polls a site: its home's, else the one that has read it last."""
    found: dict[str, tuple[bool, int, Sub]] = {}
    for sub, times in checked:
        for site, time in times.items():
            known = (homes.get(site) is sub and time > 0, time, sub)
            if site not in found or known[:2] > found[site][:2]:
                found[site] = known
    return {site: sub for site, (_, _, sub) in found.items()}


def _checked_times(txn: Txn, sites: Sequence[str]) -> dict[str, int]:
    """Of these sites that are polled, when robots.txt was read last; 0: not yet."""
    return {site: known.checked_time for site, known in read_robots(txn, sites).items()}
