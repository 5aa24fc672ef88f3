"""The sub-LCCs as a front end's content users ask them, and where each provider is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.domain.frontend.sub_lccs import home_of
from lcc.errors import StoreUnavailable
from lcc.model.frontend.moves import Flip
from lcc.model.frontend.places import Placement, SubLcc, SubState, Vitals
from lcc.roles.cu.answers import Reads
from lcc.roles.cu.front.map import ProviderMap
from lcc.roles.cu.front.tokens import FrontToken, is_front_token, parse_front_token
from lcc.roles.cu.questions import Questions
from lcc.roles.cu.tokens import BEGINNING, NOW, Token, TokenError, parse_token
from lcc.roles.cu.watcher import ChangeWatcher
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.gathering import Gathering
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.flips import flips_after, last_flip, map_version, reading_places
from lcc.storage.fe.sublccs import list_sublccs, list_vitals

MAP_SECONDS = 1.0
"""For how long what FEDB says is not read again."""
AWAY_SECONDS = 5.0
"""A sub-LCC whose database could not be reached is not asked for so long, so that nobody waits for it each time."""


@attrs.frozen(eq=False)
class Sub:
    """A sub-LCC.

    :ivar reads: its database.
    :ivar watcher: of its changes.
    """

    known: SubLcc
    reads: Reads
    watcher: ChangeWatcher

    @property
    def subid(self) -> int:
        """Its number."""
        return self.known.subid


def parse_since(since: str, digest: str) -> tuple[FrontToken, Token | None]:
    """The token of a front end, an empty one for the beginning; and that of a single LCC, if it is one.

    :param digest: names what is asked for.
    :raises TokenError: it is none, or for another question.
    """
    if is_front_token(since):
        token = parse_front_token(since)
        if token.selection != digest:
            raise TokenError("this token is for another selection: ask for what you asked for when you got it")
        return token, None
    return FrontToken(digest, {}), None if since in BEGINNING or since == NOW else parse_token(since)


def does_not_match(sub: Sub) -> StoreUnavailable:
    """A sub-LCC cannot be read with the map of moves."""
    return StoreUnavailable(
        f"sub-LCC {sub.known.name} cannot be read: it or the front end was restored from a backup, and moves do not"
        " match. If lcc-admin moves shows an unfinished one from there, wait for it; else run lcc-admin fe repair"
    )


class Subs:
    """
    :param front: the front end's database; all of it is read only.
    :param questions_max: questions to each sub-LCC that may wait.
    """

    def __init__(
        self,
        front: Reads,
        databases: SubDatabases,
        clock: IReactorTime,
        questions_max: int,
    ) -> None:
        self._front = front
        self._databases = databases
        self._clock = clock
        self._questions_max = questions_max
        self._subs: dict[int, tuple[Any, Sub]] = {}
        self._tasks: dict[int, tuple[Any, Reads]] = {}
        self._listed: list[SubLcc] = []
        self._map = ProviderMap()
        self._map_version = ""
        self._read_at: float | None = None
        self._away_until: dict[int, float] = {}
        self._asked: Gathering[int, Placement | None] = Gathering(lambda pids: front.interact(reading_places, pids))

    async def some(self) -> list[Sub]:
        """Those that are there, by their numbers.

        :raises StoreUnavailable: there are none.
        """
        subs = await self.there()
        if not subs:
            raise StoreUnavailable("the front end has no sub-LCC yet")
        return subs

    async def there(self) -> list[Sub]:
        """Those that are there, by their numbers.

        :raises StoreUnavailable: FEDB has never been read.
        """
        if self._read_at is None or self._clock.seconds() - self._read_at >= MAP_SECONDS:
            try:
                await self._read()
            except StoreUnavailable:
                if self._read_at is None:
                    raise  # else what was read before is good
        return [self._sub(known) for known in self._listed if known.state is not SubState.REMOVED]

    async def map(self, *, newest: bool = False) -> ProviderMap:
        """The map of providers that have moved, a second old at most while the front end's database can be read.

        :param newest: it is read now.
        :raises StoreUnavailable: it cannot be read, or has never been.
        """
        await (self._read() if newest else self.there())
        return self._map

    async def _read(self) -> None:
        now = self._clock.seconds()
        known = self._map
        read = await self._front.interact(_read_front, self._map_version, known.newest, list(known.undecided))
        self._listed = read.sublccs
        if read.version != self._map_version:  # it was repaired
            known, self._map_version = ProviderMap(), read.version
        self._map = known.with_flips(read.flips, read.upto)
        self._read_at = now

    async def removed(self) -> dict[int, int | None]:
        """Of those that were removed the number of the last change, as far as it was reported."""
        gone = [known.subid for known in self._listed if known.state is SubState.REMOVED]
        vitals: dict[int, Vitals] = await self._front.select(list_vitals) if gone else {}
        return {subid: vitals[subid].change_number if subid in vitals else None for subid in gone}

    async def home(self, pid: int) -> Sub | None:
        """The sub-LCC that a provider's rows are in; None: there can be no such one.

        :raises StoreUnavailable: the front end's database does not say.
        """
        subs = {sub.subid: sub for sub in await self.there()}
        placement = await self._asked.ask(pid)
        if placement is not None:
            return subs.get(placement.subid)
        home = home_of((sub.known for sub in subs.values()), pid)
        return None if home is None else subs[home.subid]

    def content_address(self, machine: int) -> str:
        """The URL of the content port of the sub-LCC that has this machine; empty: there is none."""
        for known in self._listed:
            if known.first_machine <= machine <= known.last_machine and known.state is not SubState.REMOVED:
                return known.content
        return ""

    def tasks(self, sub: Sub) -> Reads | None:
        """The tables of a sub-LCC's tasks; None: it has none (yet)."""
        database = self._databases.tasks_of(sub.known)
        if database is None:
            return None
        kept = self._tasks.get(sub.subid)
        if kept is None or kept[0] is not database:
            kept = self._tasks[sub.subid] = database, Questions(database, self._questions_max)
        return kept[1]

    def ask(self, sub: Sub, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Run ``function(txn, *args)`` in a sub-LCC's database; fails at once if that was away just now.

        :raises StoreUnavailable: (as the Deferred's failure) it cannot be reached.
        """
        return Deferred.fromCoroutine(self._ask(sub, sub.reads, function, args))

    def ask_tasks(self, sub: Sub, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """The same in its tables of tasks; fails where it has none."""
        return Deferred.fromCoroutine(self._ask(sub, self.tasks(sub), function, args))

    async def _ask(self, sub: Sub, reads: Reads | None, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if reads is None or self._away_until.get(sub.subid, 0.0) > self._clock.seconds():
            raise StoreUnavailable(f"sub-LCC {sub.known.name} could not be reached just now")
        try:
            return await reads.interact(function, *args)
        except StoreUnavailable:
            self._away_until[sub.subid] = self._clock.seconds() + AWAY_SECONDS
            raise

    def stop(self) -> None:
        """Nobody waits for changes any more."""
        for _, sub in self._subs.values():
            sub.watcher.stop()

    def by_number(self, subid: int) -> Sub | None:
        """The sub-LCC of this number; None: there is none."""
        there = (each for each in self._listed if each.subid == subid and each.state is not SubState.REMOVED)
        known = next(there, None)
        return None if known is None else self._sub(known)

    @property
    def waiting(self) -> int:
        """How many wait for a change, at all sub-LCCs together."""
        return sum(sub.watcher.waiting for sub in self.all)

    @property
    def all(self) -> list[Sub]:
        """Those that were asked for."""
        return [sub for _, sub in self._subs.values()]

    def _sub(self, known: SubLcc) -> Sub:
        database = self._databases.of(known)
        kept = self._subs.get(known.subid)
        if kept is None or kept[0] is not database:
            if kept is not None:
                kept[1].watcher.stop()
            reads = Questions(database, self._questions_max)
            kept = database, Sub(known, reads, ChangeWatcher(reads, self._clock))
            self._subs[known.subid] = kept
        return kept[1]


class _Read(NamedTuple):
    """
    :ivar version: of the map.
    :ivar upto: these are all flips up to this one.
    """

    sublccs: list[SubLcc]
    version: str
    flips: list[Flip]
    upto: int


def _read_front(txn: Txn, version: str, newest: int, undecided: list[int]) -> _Read:
    now = map_version(txn)
    flips = flips_after(txn, newest, undecided) if now == version else flips_after(txn, 0, ())
    return _Read(list_sublccs(txn), now, flips, last_flip(txn))
