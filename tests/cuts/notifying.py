"""The wire of notifiers, cut after any byte of what is said there.

The conversation: a notifier asks for a watched provider, draws order numbers, and tells sets of three providers:
polls, hints, what two sites list, one word older than what it is told after, a fault, a set that is rejected, and one
that takes back.  Robots fetch what they name.

What holds, wherever it is cut: each set gets one answer, and the right one; each is applied once (P4); the cache has
what the words, in their order, leave (P2, P5, P7); the root is watched by one provider; and nothing hangs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from twisted.internet.defer import Deferred

from lcc.model import Source
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.roles.notifier import NotifierLink
from lcc.transport.links import RetryPolicy, link_service
from tests.support.net import HOWS, SILENT_EVERY, Cut, How
from tests.support.roles.chain import OTHER_PID, OTHER_ROOT, PID, ROOT, World

WIRE = "notify-scheduler.sock"
NEW_ROOT = "http://new.example/"
SECONDS_MAX = {"fin": 20.0, "rst": 20.0, "silence": 70.0}
TYPE = {"m": "text/html"}
END = [ROOT + "a", ROOT + "b", OTHER_ROOT + "c", NEW_ROOT + "feed", NEW_ROOT + "robots.txt"]
PAGES = {url: url.encode() for url in [*END, ROOT + "gone", OTHER_ROOT + "back"]}
REJECTED, FAULTY = 6, 5
APPLIED = 8
"""Sets that change something: all but the one that is rejected."""


class Notifying:
    """The conversation.

    :param prepared: see :class:`~tests.support.roles.chain.World`.
    """

    def __init__(self, prepared: Path) -> None:
        self._prepared = prepared
        self._said = {True: 0, False: 0}
        self.run(None)

    def cuts(self, hows: tuple[How, ...] = HOWS) -> Iterator[Cut]:
        """All cuts there are; silence less often."""
        for up in (True, False):
            for after in range(self._said[up] + 1):
                for how in hows:
                    if how != "silence" or after % SILENT_EVERY == 0:
                        yield Cut(WIRE, up, after, how)

    def run(self, cut: Cut | None) -> None:
        """Have the conversation, cut there.

        :raises AssertionError: a promise is broken.
        """
        folder = Path(mkdtemp(dir=self._prepared.parent))
        try:
            world = World(folder, self._prepared, cut)
            try:
                self._run(world, cut)
            finally:
                world.close()
        finally:
            shutil.rmtree(folder)

    def _run(self, world: World, cut: Cut | None) -> None:
        net = world.net
        world.origin.pages = dict(PAGES)
        policy = RetryPolicy(world.random.random)
        link = NotifierLink("scheduler", "s1", "e1", "r1", net, policy.good_hello, ask_seconds=100.0)
        service = link_service(net, f"unix:{world.address(WIRE)}", link.factory(), policy)
        service.startService()
        try:
            watched = world.result_of(link.watch(NEW_ROOT))
            outcomes = self._tell(world, link, watched)
            again = world.result_of(link.watch(NEW_ROOT))
            if cut is None:
                self._said = dict(net.traffic[WIRE, 0].given)
            else:
                assert net.was_cut, "it was not cut: nothing is tested"
        finally:
            link.close()
            service.stopService()
        assert watched == again and world.count("pidb", "watched = 1") == 1, "the root is watched twice"
        self._check_answers(outcomes)
        took = world.drain(SECONDS_MAX[cut.how if cut is not None else "fin"])
        assert cut is not None or took < 10
        world.check_content({url: PAGES[url] for url in END})
        applied = int(world.database.now(lambda txn: txn.value("SELECT value FROM counters WHERE name = 'psetid'")))
        assert applied == APPLIED, f"{applied} sets were applied"
        world.check_at_rest(silent=cut is not None and cut.how == "silence")
        world.stop()

    def _tell(self, world: World, link: NotifierLink, watched: int) -> list[NoticeOutcome]:
        outcomes: list[NoticeOutcome] = []

        def tell(number: int, pid: int, source: Source, *urls: dict[str, str], order: int = 0) -> None:
            told: Deferred[NoticeOutcome] = link.tell(SourcedSet(number, pid, source, urls, order))
            told.addCallback(outcomes.append)

        older, newer = world.result_of(link.draw(PID)), world.result_of(link.draw(PID))
        others = world.result_of(link.draw(OTHER_PID))
        tell(1, watched, Source.POLLED, {"c": NEW_ROOT + "robots.txt", **TYPE}, {"c": NEW_ROOT + "feed", **TYPE})
        tell(2, PID, Source.LISTED, {"c": ROOT + "a", **TYPE}, order=newer)
        tell(3, PID, Source.LISTED, {"c": ROOT + "a", **TYPE, "op": "delete"}, order=older)
        tell(4, OTHER_PID, Source.LISTED, {"c": OTHER_ROOT + "back", **TYPE}, order=others)
        tell(FAULTY, PID, Source.FEED, {"c": ROOT + "b", **TYPE}, {"c": "http://elsewhere.example/", **TYPE})
        tell(REJECTED, PID, Source.LISTED, {"c": ROOT + "gone", **TYPE}, order=newer + 100)
        tell(8, OTHER_PID, Source.FEED, {"c": OTHER_ROOT + "c", **TYPE})
        tell(9, OTHER_PID, Source.LISTED, {"c": OTHER_ROOT + "back", **TYPE, "op": "retract"}, order=others)
        tell(10, PID, Source.FEED, {"c": ROOT + "a", **TYPE})
        for _ in range(200):
            if not link.waiting_count:
                return outcomes
            world.net.skip(0.5)
        raise AssertionError(f"{link.waiting_count} sets wait for their answers for ever")

    def _check_answers(self, outcomes: list[NoticeOutcome]) -> None:
        assert [each.number for each in outcomes] == [1, 2, 3, 4, 5, 6, 8, 9, 10]
        assert [each.number for each in outcomes if each.code] == [REJECTED]
        faults = {each.number: [fault.code for fault in each.refused] for each in outcomes if each.refused}
        assert faults == {FAULTY: [1204]}

    def end(self) -> None:
        """Each conversation has ended for itself."""
