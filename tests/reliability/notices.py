"""A notifier of a kill test: it tells sets of providers that have no sessions, through the port of notifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet import reactor
from twisted.internet.task import deferLater

from lcc.model import Source
from lcc.model.notifiers import SourcedSet
from lcc.roles.notifier import NotifierLink, NotifierRefused
from lcc.transport.links import RetryPolicy, link_service

from .journal import ACCEPTED, IF_ABSENT, REJECTED, UNSENT, UPDATE
from .providers import Provider

if TYPE_CHECKING:
    from .world import World

RETRY_SECONDS = 0.5


class Notifier:
    """The link, and the numbers of its sets.

    :param address: of the port of notifiers.
    """

    def __init__(self, address: str) -> None:
        policy = RetryPolicy(lambda: RETRY_SECONDS)
        self.link = NotifierLink("scheduler", "world", "e1", "run", reactor, policy.good_hello)  # type: ignore[arg-type]
        link_service(reactor, address, self.link.factory(), policy).startService()  # type: ignore[arg-type]
        self._told = 0

    def next_number(self) -> int:
        """For a set that is told at once."""
        self._told += 1
        return self._told


class Noticed(Provider):
    """A provider of whose pages only the notifier tells."""

    def __init__(self, world: World, notifier: Notifier, pid: int, name: str) -> None:
        super().__init__(world, pid, name)
        self._notifier = notifier

    async def live(self) -> None:
        """Tell sets one after the other, for ever."""
        while True:
            await deferLater(reactor, self._random.expovariate(1 / self._world.pace))  # type: ignore[arg-type]
            await self._world.may_begin()
            self.change()
            await self._tell()
            self._world.ended()

    def compose(self, full: bool) -> list[tuple[str, str]]:
        return [(name, UPDATE if kind == IF_ABSENT else kind) for name, kind in super().compose(full)]

    async def _tell(self) -> None:
        world, link = self._world, self._notifier.link
        number, elements, ops = self.make_set(False)
        if not ops:
            return
        world.note("set", n=number, pid=self.pid, full=False, uns=0, ops=ops)
        try:
            order = await link.draw(self.pid)
        except NotifierRefused as refused:
            world.note("answer", n=number, how=UNSENT, code=refused.code, faults=[], received=0)
            return
        world.note("drawn", n=number, order=order)
        root = f"http://127.0.0.1:{world.port}/{self.name}/"
        urls: tuple[Any, ...] = tuple(each | {"c": root + each["c"]} for each in elements)
        outcome = await link.tell(SourcedSet(self._notifier.next_number(), self.pid, Source.LISTED, urls, order))
        how = REJECTED if outcome.code else ACCEPTED
        faults = [[each.code, ops[each.index - 1][0]] for each in outcome.refused]
        world.note("answer", n=number, how=how, code=outcome.code, faults=faults, received=len(ops) - len(faults))
        self.learn(how, ops)
