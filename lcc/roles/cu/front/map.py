"""The map of providers that have moved: which sub-LCC tells whose rows, and which moves a token has to account for.

A provider's rows are told by the sub-LCC that it is in according to the map: its former one until the move is active,
for that has all rows until then; afterwards the new one.  The map only ever grows, and is replaced as a whole: a page
is read with one state of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

import attrs

from lcc.model.frontend.moves import Flip
from lcc.storage.views.moved import MapView

Wanted = Callable[[int], bool]
"""Whether a provider is among those that are asked for."""
_NOBODY: frozenset[int] = frozenset()


@attrs.frozen(eq=False)
class ProviderMap:
    """
    :ivar newest: all flips up to this one are known.
    :ivar undecided: flips that are not active, by their numbers.
    """

    newest: int = 0
    undecided: Mapping[int, Flip] = attrs.Factory(dict)
    _trails: Mapping[int, tuple[Flip, ...]] = attrs.Factory(dict)
    _arrivals: Mapping[int, tuple[tuple[int, int], ...]] = attrs.Factory(dict)
    _elsewhere: Mapping[int, frozenset[int]] = attrs.Factory(dict)

    def with_flips(self, flips: Iterable[Flip], upto: int = 0) -> ProviderMap:
        """The map with these, too; the same one if there is nothing new in them.

        :param flips: in the order of their numbers.
        :param upto: there are no others up to this one.
        """
        new = [each for each in flips if self._is_news(each)]
        if not new and upto <= self.newest:
            return self
        undecided, trails = dict(self.undecided), dict(self._trails)
        arrivals, elsewhere = dict(self._arrivals), dict(self._elsewhere)
        for flip in new:
            pid, source, dest = flip.pid, flip.source, flip.dest
            if not flip.active:
                undecided[flip.flip] = flip
                elsewhere[dest] = elsewhere.get(dest, _NOBODY) | {pid}
                continue
            undecided.pop(flip.flip, None)
            trails[pid] = (*trails.get(pid, ()), flip)
            arrivals[dest] = tuple(sorted((*arrivals.get(dest, ()), (flip.flip, pid))))
            elsewhere[source] = elsewhere.get(source, _NOBODY) | {pid}
            elsewhere[dest] = elsewhere.get(dest, _NOBODY) - {pid}
        newest = max([self.newest, upto, *(each.flip for each in new)])
        return ProviderMap(newest, undecided, trails, arrivals, elsewhere)

    def _is_news(self, flip: Flip) -> bool:
        return flip.flip > self.newest or (flip.active and flip.flip in self.undecided)

    def view(self, subid: int) -> MapView:
        """What a page of this sub-LCC is read with."""
        leaving = [each for each in self.undecided.values() if each.source == subid]
        flips = tuple([each.flip for each in leaving])
        since = tuple([each.since for each in leaving if each.since is not None])
        arriving = frozenset(each.pid for each in self.undecided.values() if each.dest == subid)
        return MapView(self.newest, flips, since, arriving, self._elsewhere.get(subid, _NOBODY))

    def moves_of(self, pid: int) -> tuple[Flip, ...]:
        """The moves of a provider that are active, in their order."""
        return self._trails.get(pid, ())

    def settled(self, subid: int) -> int:
        """All moves to a sub-LCC up to this one are active."""
        return min((each.flip for each in self.undecided.values() if each.dest == subid), default=self.newest + 1) - 1

    def next_arrival(self, subid: int, flip: int, wanted: Wanted) -> tuple[int, int] | None:
        """The next move to a sub-LCC after this one whose provider is still there: its flip, and the provider.

        :returns: None: there is none.
        """
        arrivals = self._arrivals.get(subid, ())
        for place in range(bisect_right(arrivals, (flip, 1 << 63)), len(arrivals)):
            number, pid = arrivals[place]
            if self._trails[pid][-1].flip == number and wanted(pid):
                return number, pid
        return None

    def gained(self, before: ProviderMap) -> set[int]:
        """The sub-LCCs that providers have come to since the map was another one."""
        return {subid for subid, arrivals in self._arrivals.items() if arrivals != before._arrivals.get(subid)}
