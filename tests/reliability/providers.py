"""The providers of a kill test: their pages, and what they tell of them in sessions of their own."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from twisted.internet import reactor
from twisted.internet.task import deferLater

from lcc.protocols.cp_uns import InitAccepted, UrlFault
from lcc.provider.client import Unreachable, submit, uns_endpoint

from .cutting import CutEndpoint
from .journal import ACCEPTED, DELETE, IF_ABSENT, REFUSED, REJECTED, UNKNOWN, UNSENT, UPDATE
from .pages import Page

if TYPE_CHECKING:
    from .world import World

FIRST_PAGES = 12
FULL_SHARE, CUT_SHARE, LEAVE_SHARE, REFUSED_SHARE, SLIP_SHARE = 0.07, 0.06, 0.06, 0.03, 0.03
LEAVE_SECONDS_MAX = 0.1
"""After that a provider that does not wait for the answer is gone."""
HEALED_SHARE = 0.7
TROUBLES = ("404", "500", "503", "cut", "slow")
TIMEOUT_SECONDS, CONNECT_SECONDS = 15.0, 5.0


class Provider:
    """The pages of a provider, and what is to be told of them."""

    def __init__(self, world: World, pid: int, name: str, first_pages: int = FIRST_PAGES) -> None:
        self.pid = pid
        self.name = name
        self.pages: dict[str, Page] = {}
        self._world = world
        self._random = Random(f"{world.seed} {name}")
        self._pending: set[str] = set()
        self._made = 0
        for _ in range(first_pages):
            self._new_page()

    # The pages.

    def _new_page(self) -> None:
        self._made += 1
        name = f"{self._made:04d}.html"
        self.pages[name] = Page(f"/{self.name}/{name}")
        self._pending.add(name)

    def change(self) -> None:
        random = self._random
        for _ in range(random.randint(1, 4)):
            luck = random.random()
            existing = [name for name, page in self.pages.items() if page.exists]
            if luck < 0.15 or len(existing) < 6:
                self._new_page()
                continue
            name = random.choice(existing)
            page = self.pages[name]
            if luck < 0.25:
                page.exists = False
            elif luck < 0.4:
                page.trouble = "" if page.trouble else random.choice(TROUBLES)
                continue
            else:
                page.version += 1
            self._pending.add(name)
        # Somewhere something was forgotten, or is back.
        if random.random() < 0.1:
            page = random.choice(list(self.pages.values()))
            page.exists, page.version = True, page.version + 1

    def heal(self, share: float = HEALED_SHARE) -> None:
        """So much of what was wrong with the pages is mended."""
        for page in self.pages.values():
            if page.trouble and self._random.random() < share:
                page.trouble = ""

    # The sets.

    def compose(self, full: bool) -> list[tuple[str, str]]:
        """Names and kinds."""
        random = self._random
        existing = [name for name, page in self.pages.items() if page.exists]
        if full:
            chosen = [(name, UPDATE) for name in existing if random.random() > SLIP_SHARE]
        else:
            pending = sorted(self._pending)
            named = random.sample(pending, min(len(pending), random.randint(1, 8)))
            chosen = [(name, UPDATE if self.pages[name].exists else DELETE) for name in named]
            for name in random.sample(existing, min(len(existing), random.randrange(3))):
                if name not in named:
                    kind = IF_ABSENT if random.random() < 0.2 else UPDATE
                    chosen.append((name, DELETE if random.random() < SLIP_SHARE else kind))
            if random.random() < SLIP_SHARE:
                name = random.choice(list(self.pages))
                chosen = [each for each in chosen if each[0] != name] + [(name, UPDATE)]
        if random.random() < REFUSED_SHARE:
            chosen.append(("refused.mpg", REFUSED))
        random.shuffle(chosen)
        return chosen

    def element(self, id: str, name: str, kind: str) -> dict[str, str]:
        element = {"c": name, "x": id}
        if kind == DELETE:
            return element | {"op": "delete"}
        if kind == REFUSED:
            return element | {"m": "video/mpeg"}
        element["m"] = "text/html"
        if kind == IF_ABSENT:
            element["ifabsent"] = "yes"
        if self._random.random() < 0.6:
            element |= self.pages[name].told()
        return element

    def make_set(self, full: bool) -> tuple[int, list[dict[str, str]], list[list[Any]]]:
        """The number of a new set, its elements, and what the journal says of them."""
        number = self._world.next_number()
        elements, ops = [], []
        for index, (name, kind) in enumerate(self.compose(full)):
            id = f"{self.pid}-{number}-{index}"
            elements.append(self.element(id, name, kind))
            ops.append([id, name, kind, self.pages[name].version if name in self.pages else 0])
        return number, elements, ops

    def learn(self, how: str, ops: list[list[Any]]) -> None:
        """What became of a set."""
        if how == ACCEPTED:
            self._pending -= {name for _, name, _, _ in ops}
        elif self._random.random() < 0.1:
            self._pending.clear()  # it never learns


class Publisher(Provider):
    """A provider that tells sets in sessions of its own."""

    def __init__(self, world: World, pid: int, password: str, name: str, first_pages: int = FIRST_PAGES) -> None:
        super().__init__(world, pid, name, first_pages)
        self._password = password

    def lives(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What it does, for ever: it has two connections at once, now and then."""
        yield self.live(True)
        yield self.live(False)

    async def live(self, first: bool) -> None:
        """Tell sets one after the other, for ever."""
        while True:
            await deferLater(reactor, self._random.expovariate(1 / self._world.pace))
            await self._world.may_begin()
            if first or self._random.random() < FULL_SHARE:
                await self._tell(True)
            else:
                self.change()
                await self._tell(False)
            first = False
            self._world.ended()

    async def _tell(self, full: bool) -> None:
        random, world = self._random, self._world
        number, elements, ops = self.make_set(full)
        uns = random.choice(world.unses)
        world.note("set", n=number, pid=self.pid, full=full, uns=uns, ops=ops)
        cut = CutEndpoint(uns_endpoint(reactor, f"127.0.0.1:{uns}"), None)
        if random.random() < CUT_SHARE:
            cut.at, cut.abort = random.randrange(3000), random.random() < 0.5

        def welcomed(welcome: InitAccepted) -> bool:
            world.note(
                "welcome",
                n=number,
                seq=welcome.connseq,
                count=welcome.error_count,
                errors=[_fault(each) for each in welcome.errors],
                wanted=welcome.full_set_reason if welcome.full_set_wanted else "",
            )
            return True

        leaving: list[Any] = []

        def sent(_count: int) -> None:
            if leaves:
                leaving.append(reactor.callLater(random.uniform(0, LEAVE_SECONDS_MAX), telling.cancel))  # type: ignore[attr-defined]

        leaves = random.random() < LEAVE_SHARE
        code, faults, received = 0, [], 0
        try:
            telling = submit(
                reactor,
                cut,
                self.pid,
                self._password,
                elements,
                full=full,
                urlprefix=f"http://127.0.0.1:{world.port}/{self.name}/",
                on_welcome=welcomed,
                on_progress=sent,
                timeout_seconds=TIMEOUT_SECONDS,
                connect_timeout_seconds=CONNECT_SECONDS,
            )
            done = await telling
            how = ACCEPTED if done.accepted else REJECTED
            code, faults, received = done.code, [_fault(each) for each in done.faults], done.received
        except Unreachable as failure:
            how = UNKNOWN if failure.uncertain and not cut.done else UNSENT
        for call in leaving:
            if call.active():
                call.cancel()
        world.note("answer", n=number, how=how, code=code, faults=faults, received=received)
        self.learn(how, ops)


def _fault(fault: UrlFault) -> list[Any]:
    return [fault.code, fault.attributes.get("x", "")]
