"""The wire of notifiers, from both ends."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.task import Clock

from lcc.model.notifiers import NOTIFIERS, SourcedSet
from lcc.model.sources import Source
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import (
    Accepted,
    Again,
    Draw,
    Drawn,
    Fault,
    Hold,
    Rejected,
    SetBegin,
    SetEnd,
    Watch,
    Watched,
    Window,
)
from lcc.protocols.uns_qm import Ping
from lcc.roles.notifier import NotifierLink, NotifierRefused
from lcc.roles.uns.notifiers.connection import notifier_port
from lcc.transport.ports.connection_limits import ConnectionLimits
from tests.fuzz.target import Target, check
from tests.fuzz.targets_uns import HONEST_PID, QuietWorld
from tests.support.roles.notifiers import a_set, connect_notifier
from tests.support.roles.uns import absorbed
from tests.support.transports import Line


class NotifierSets(Target):
    """What notifiers say to a UNS."""

    name = "notifiers: at the UNS"
    share = 6

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello(role="push", name="p1", epoch="e1", run="r", clock_ms=5).open_tag()
        scheduler = Hello(role="scheduler", name="s1", epoch="e1").open_tag()
        drawing = Draw(1, 7).to_xml() + Draw(2, 7, 1).to_xml() + Draw(3, 99).to_xml()
        watching = Watch(1, "http://new.example/").to_xml() + Watch(2, "nonsense").to_xml()
        bad = SetBegin(3, 7, "polled").to_xml() + '<url c="http://other.example/"/><url c="x"/>' + SetEnd(2).to_xml()
        back = a_set(4, "a", more="retract") + a_set(5, "b", more="recheck") + a_set(6, "c", more="delete")
        texts = (
            scheduler + a_set(1, "a", "b") + a_set(2, "c", pid=8) + bad + back + Ping().to_xml(),
            hello + drawing + a_set(1, "a", source="pushed", order=1) + a_set(2, "b", source="pushed", order=99),
            scheduler + watching + a_set(1, "a", pid=9) + a_set(2, "a", source="told") + a_set(3, "a", pid=77),
            scheduler + "".join(a_set(number, str(number), pid=7 + number % 2) for number in range(1, 60)),
            scheduler + a_set(1, "a") + Again().to_xml() + a_set(1, "a"),
            scheduler + a_set(1, *map(str, range(50)), source="feed") + "</lcc:stream>",
            hello,
        )
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.world = QuietWorld(home, notifier_sets_max=20, notifier_watches_per_second=10_000.0)
        self.clock = self.world.clock
        self.world.connect_qm(absorbed)
        self._port = notifier_port(self.world.uns.notifiers, frozenset(NOTIFIERS), ConnectionLimits(20))
        self._number = 0

    def settle(self) -> None:
        self.world.pump()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return Line(self._port.buildProtocol(None), self.settle, room=room, late=late)

    def honest(self) -> None:
        world = self.world
        world.pump()
        self._number += 1
        notifier = connect_notifier(world, "spider", name="honest")
        notifier.heard()
        notifier.say(a_set(self._number, "honest", pid=HONEST_PID))
        answers = notifier.answers()
        check(answers == [Accepted(self._number)], f"the answer was {answers}")
        notifier.lose()
        world.cps.remove(notifier)
        world.pump()
        check(not world.uns.notifiers.open, "connections are left")
        check(world.incoming_files() == [], "files of sets that were cut off are left")
        check(world.uns.forwarder.waiting_count == world.uns.notifiers.sets_under_way == 0, "sets wait")
        check(world.spool.size_bytes == world.spool.memory_bytes == 0, "the spool is not empty")
        del world.qm.sets[:]  # type: ignore[union-attr]
        for pid in [pid for pid in world.database.providers if pid > HONEST_PID]:
            del world.database.providers[pid]

    def close(self) -> None:
        self.world.end()


class NotifierAnswers(Target):
    """What a UNS says to a notifier."""

    name = "notifiers: at the notifier"
    share = 4

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello(role="uns", name="u1", clock_ms=5).open_tag()
        window = Window(10, 10_000, 100, 100_000).to_xml()
        small = Window(1, 1, 1, 60).to_xml()
        faults = Fault(1, 1, 1204, "outside", "http://x.example/").to_xml() + Fault(2, 1, 1202).to_xml()
        held = Hold(True, "the spool is full").to_xml() + Accepted(1).to_xml() + Hold(False).to_xml()
        found = Watched(1, 7).to_xml() + Drawn(2, 5).to_xml() + Watched(3, 0, 1003, "no").to_xml()
        texts = (
            hello
            + window
            + faults
            + Accepted(2).to_xml()
            + Rejected(3, 1105, "gone").to_xml()
            + Accepted(5).to_xml(),
            hello + window + found + Accepted(1).to_xml(),
            hello + window + held + Accepted(5).to_xml(),
            hello + small + Accepted(1).to_xml() + Accepted(2).to_xml() + Ping().to_xml(),
            hello + found,
            hello,
        )
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.clock = Clock()
        self._new_link()

    def _new_link(self) -> None:
        self.link = NotifierLink("scheduler", "s1", "e1", "r1", self.clock)
        self._number = 0
        self._outcomes: list[int] = []
        self._found = self._asked = 0

    def settle(self) -> None:
        self.clock.advance(0)

    def _tell(self) -> None:
        self._number += 1
        number = self._number
        told = SourcedSet(number, 7, Source.POLLED, ({"c": f"http://site.example/{number}"},) * (1 + number % 3))
        self.link.tell(told).addCallback(lambda outcome: self._outcomes.append(outcome.number))

    def _ask(self) -> None:
        def found(_: Any) -> None:
            self._found += 1

        self._asked += 2
        for question in (self.link.watch("http://site.example/"), self.link.draw(7)):
            question.addErrback(lambda failure: failure.trap(NotifierRefused) and None).addCallback(found)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        self._new_link()
        for _ in range(5):
            self._tell()
        self._ask()
        return Line(self.link.factory().buildProtocol(None), self.settle, room=room, late=late)

    def play(self, random: Random, pieces: Any) -> Line | None:
        line = super().play(random, pieces)
        self.link.close()  # its questions have timers of their own
        check(self._outcomes == sorted(set(self._outcomes)), f"answered: {self._outcomes}")
        return line

    def honest(self) -> None:
        line = self.connect()
        hello = Hello(role="uns", name="u1").open_tag() + Window(10, 10_000, 100, 100_000).to_xml()
        line.say([hello.encode()])
        for _ in range(10):
            line.turn()
        line.say([(Accepted(5).to_xml() + Watched(1, 7).to_xml() + Drawn(2, 1).to_xml()).encode()])
        for _ in range(3):
            line.turn()
        check(self._outcomes == [1, 2, 3, 4, 5], f"answered: {self._outcomes}")
        check(self._found == self._asked, "questions have no answer")
        line.lose()
        self.link.close()

    def close(self) -> None:
        self.link.close()
