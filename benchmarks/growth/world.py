"""A web of sites whose pages change: who tells of what, hour by hour.  No clock, no database."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from random import Random

import attrs

HOURS = 24
_WHEEL = 100
"""Pages are alike by their number modulo this: so the classes are spread over all sites."""


@attrs.frozen
class ChangeClass:
    """Pages that change equally often.

    :ivar hundredths: of all pages.
    :ivar days: between two changes of a page, on average.
    """

    hundredths: int
    days: float

    @property
    def per_day(self) -> float:
        """Changes a day, for each page of the whole web."""
        return self.hundredths / _WHEEL / self.days


CLASSES = (ChangeClass(1, 1.0), ChangeClass(9, 7.0), ChangeClass(90, 100.0))
"""News, what is worked on, and the rest: 0.032 changes a day for a page."""


def changes_per_day(classes: tuple[ChangeClass, ...] = CLASSES) -> float:
    """For each page, on average."""
    return sum(each.per_day for each in classes)


def by_hour(hour: int, swing: float = 0.8) -> float:
    """How much of an hour's mean share of the changes comes in this hour of the day."""
    return 1 + swing * math.sin(2 * math.pi * (hour % HOURS) / HOURS)


class World:
    """Sites of very unlike sizes: the n-th largest has a share of about 1/n.

    :ivar urls: pages of all.
    :param classes: how often they change.
    """

    def __init__(self, urls: int, providers: int, classes: tuple[ChangeClass, ...] = CLASSES, seed: int = 1) -> None:
        self.urls = urls
        self.providers = providers
        self._random = Random(seed)
        weights = [1 / (number + 10) for number in range(providers)]
        total, sum_so_far, self._firsts = sum(weights), 0.0, [0]
        for weight in weights:
            sum_so_far += weight
            self._firsts.append(min(urls, round(urls * sum_so_far / total)))
        self._firsts[-1] = urls
        self._classes = classes

    def pages(self, pid: int) -> range:
        """Numbers of a provider's pages; providers count from 1."""
        return range(self._firsts[pid - 1], self._firsts[pid])

    def owner(self, page: int) -> int:
        """The provider of a page."""
        return bisect_right(self._firsts, page)

    def hour(self, hour: int) -> Iterator[tuple[int, list[int]]]:
        """(provider, its pages that have changed in this hour), for each that has some."""
        changed: dict[int, set[int]] = {}
        start = 0
        for each in self._classes:
            mean = self.urls * each.per_day / HOURS * by_hour(hour)
            for _ in range(self._count(mean)):
                page = self._random.randrange(self.urls // _WHEEL) * _WHEEL
                page += start + self._random.randrange(each.hundredths)
                changed.setdefault(self.owner(page), set()).add(page)
            start += each.hundredths
        for pid, pages in changed.items():
            yield pid, sorted(pages)

    def _count(self, mean: float) -> int:
        """A Poisson number, near enough."""
        if mean > 50:
            return max(0, round(self._random.gauss(mean, math.sqrt(mean))))
        count, product, limit = 0, self._random.random(), math.exp(-mean)
        while product > limit:
            count += 1
            product *= self._random.random()
        return count
