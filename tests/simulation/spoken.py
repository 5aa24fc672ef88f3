"""Pages that several of a site's own words name: told, listed, pushed.  Each word is taken back by its own source; a
deletion takes back all that were said before it.

What is true in the end is simple: a page is in the cache if one of its sources names it.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from lcc.model import Source

from .sites import Page, Site

_PAGES = 5


class Spoken:
    """Such pages of a site.

    :param is_told: its provider tells some of them, too; then they are never deleted, and never change: its sets say
        what was there before they got their order numbers.
    :ivar named: path -> who names it.
    :ivar untold: what is to be told (again): path and source.
    """

    def __init__(self, site: Site, chance: Random, is_told: bool) -> None:
        self._site = site
        self._chance = chance
        self._sources = (Source.LISTED, Source.PUSHED, *([Source.TOLD] if is_told else []))
        self._is_told = is_told
        self._versions = 0
        self.named: dict[str, set[Source]] = {f"r{number}.html": set() for number in range(_PAGES)}
        self.untold: dict[tuple[str, Source], None] = {}
        self._deleted: set[str] = set()
        self._orders: dict[str, int] = {}
        """Path -> the highest order number of what was told of it."""
        self._turns: Counter[tuple[str, Source]] = Counter()
        """How often a source has begun or stopped to name a path."""
        for path in self.named:
            self._change(path)

    def _change(self, path: str) -> None:
        self._versions += 1
        page = Page(self._versions, f"{path} {self._versions}".encode())
        self._site.leftovers[path] = page

    def live_a_little(self) -> None:
        """Somebody begins to name a page, or stops; or it is deleted."""
        path = self._chance.choice(sorted(self.named))
        named, luck = self.named[path], self._chance.random()
        if luck < 0.5 or not named:
            self._name(path, self._chance.choice(self._sources))
        elif luck < 0.85 or self._is_told:
            source = self._chance.choice(sorted(named))
            named.discard(source)
            self._turns[path, source] += 1
            self.untold[path, source] = None
        else:
            source = self._chance.choice(sorted(named))
            self._turns.update((path, other) for other in named)
            named.clear()
            self._deleted.add(path)
            for other in self._sources:
                self.untold.pop((path, other), None)
            self.untold[path, source] = None

    def _name(self, path: str, source: Source) -> None:
        named = self.named[path]
        if path in self._deleted:
            self._deleted.discard(path)
            self.untold.update({(path, other): None for other in self._sources})  # whether or not it was told
        self._turns[path, source] += source not in named
        named.add(source)
        self.untold[path, source] = None
        if not self._is_told and self._chance.random() < 0.5:
            self._change(path)
            self.untold.update({(path, other): None for other in named})

    def tell_again(self, path: str) -> None:
        """Nobody knows what of it has arrived."""
        self.untold.update({(path, source): None for source in self._sources})

    def tell_all(self) -> None:
        """The same of all pages."""
        for path in self.named:
            self.tell_again(path)

    # What a source says.

    def state(self, path: str, source: Source) -> Any:
        """What it would say: whether it names the path, and the rest.  One that was left is never there again."""
        named = source in self.named[path]
        says = self._site.leftovers[path].version if named else path in self._deleted
        return named, says, self._turns[path, source]

    def told_by(self, source: Source) -> list[str]:
        """The pages of which it has something to say."""
        return [path for path, by in self.untold if by is source]

    def element(self, path: str, source: Source, order: int) -> tuple[dict[str, str], bool]:
        """What it says, in a set of this order number; and whether that is the last word so far."""
        is_last = order >= self._orders.get(path, 0)
        self._orders[path] = max(order, self._orders.get(path, 0))
        told = {"c": self._site.url(path), "m": "text/html"}
        if source in self.named[path]:
            page = self._site.leftovers[path]
            if self._chance.random() < 0.7:
                told |= {"md5": page.md5, "len": str(len(page.content))}
            return told, is_last
        if path in self._deleted:
            return {"c": told["c"], "op": "delete"}, is_last
        return told | {"op": "retract"}, is_last

    def was_told(self, path: str, source: Source, state: Any) -> None:
        """A set was accepted that said this."""
        if state == self.state(path, source):
            self.untold.pop((path, source), None)

    @property
    def pages(self) -> dict[str, Page]:
        """Those that somebody names."""
        return {path: self._site.leftovers[path] for path, named in self.named.items() if named}

    # What the provider tells, if it tells of them.

    @property
    def needs_full_set(self) -> bool:
        """It tells some of them no longer: nothing else takes that back."""
        return any(Source.TOLD not in self.named[path] for path in self.told_by(Source.TOLD))

    def to_tell(self, full: bool) -> dict[str, Any]:
        """Path -> state, of what a set of the provider says: what it names; in a full one the others, too."""
        if not self._is_told:
            return {}
        states = {path: self.state(path, Source.TOLD) for path in (self.named if full else self.told_by(Source.TOLD))}
        return {path: state for path, state in states.items() if full or state[0]}
