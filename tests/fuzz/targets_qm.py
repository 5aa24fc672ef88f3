"""The queue manager, as UNSes and BOT-Ms speak to it: the real store, on SQLite."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from lcc.protocols.hello import Hello, Ready
from lcc.protocols.uns_qm import Damage, EndSet, Set, write_notice
from lcc.protocols.work import Capacity, Checked, Deleted, Done, Gone, MachineHello, Running, addressed
from tests.fuzz.target import Target, check
from tests.support.roles.qm import NOW, FakeBotm, FakeUns, World, page, pages
from tests.support.transports import Line


class _Qm(Target):
    """A queue manager with an honest UNS and an honest BOT-M that come and go."""

    share = 6
    streams = 60
    hops = 0

    def __init__(self, home: Path) -> None:
        self.world = World(home, queue_rows_max=100_000_000)
        self.clock = self.world.clock
        self.hostile = self.world.provider()
        self.good = self.world.provider("http://good.example/")
        self._number = 0

    def settle(self) -> None:
        self.world.settle()

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / 4)):
            self.clock.advance(4)
            self.settle()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        raise NotImplementedError

    def port(self, for_uns: bool, room: int | None, late: bool) -> Line:
        return Line(self.world.engine.factory(for_uns).buildProtocol(None), self.settle, room=room, late=late)

    def honest(self) -> None:
        """A set is taken in, and its page fetched."""
        world = self.world
        self._number += 1
        number = self._number
        uns = FakeUns(world, "honest")
        notice = page(1, curl=f"http://good.example/{number}", md5=f"{number:032x}")
        uns.send_set(number, self.good, [notice], connseq=number)
        world.settle()
        check([(answer.number, answer.code) for answer in uns.answers] == [(number, 0)], f"it heard {uns.answers}")
        uns.close()
        botm = FakeBotm(world, 7, f"run{number}", capacity=400)
        for _ in range(20):
            self.clock.advance(1)
            world.settle()
            for fetch in list(botm.out.values()):
                botm.done(fetch, *([] if fetch.pid == self.good else [404]))
            if notice.curl in world.cached(self.good):
                break
        check(notice.curl in world.cached(self.good), "it was not fetched")
        botm.close()
        world.fetching.clear()
        world.settle()

    def close(self) -> None:
        self.world.close()


class Sets(_Qm):
    """What UNSes say."""

    name = "uns-qm: at the queue manager"
    allowed = ("breaks the stream", "is refused", "has lost an accepted set", "restored from a backup")

    @classmethod
    def seeds(cls) -> list[bytes]:
        def a_set(number: int, *names: int, **options: Any) -> str:
            notices = [page(name, **options.get("notice", {})) for name in names]
            full = options.get("full", False)
            header = Set(
                "e1", number, 1, number, full, 0, options.get("answered", False), NOW, options.get("want", 0)
            )
            return header.to_xml() + "".join(map(write_notice, notices)) + EndSet(len(names)).to_xml()

        hello = Hello("uns", "hostile", epoch="e1", acked=0, numbers_upto=9).open_tag()
        rich = {
            "md5": "0" * 32,
            "length": 12,
            "mtime": 1_700_000_000,
            "hours": "0-8",
            "furl": "http://site.example/f",
        }
        texts = [
            hello + a_set(1, 1, 2, 3) + a_set(2, 4),
            hello + a_set(1, *range(20), full=True, answered=True) + a_set(2),
            hello + a_set(1, 1, 2, notice=rich) + a_set(2, 1, notice={"delete": True, "mimetype": ""}),
            hello + a_set(1, 5, notice={"ifabsent": True, "sent": '["c","x"]'}) + "<ping/></lcc:stream>",
            hello + Damage(1).to_xml() + Damage(0).to_xml() + a_set(3, 1, want=4),
            hello + a_set(1, 7, 8, 9)[:-15],
        ]
        return [text.encode() for text in texts]

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return self.port(True, room, late)


class Results(_Qm):
    """What BOT-Ms say."""

    name = "qm-botm: at the queue manager"
    allowed = ("Unusable result", "restored from a backup")

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello("botm", "b", machine=1, run="r9", capacity=4, names_upto=100, content="http://192.0.2.2:9")
        suspect = Hello("botm", "b", machine=1, run="r9", capacity=4, suspect_from=1, suspect_upto=5, acked=3)
        central = Hello("botm", "c", machine=0, run="c9")
        done = Done(1, "ORDER", 1, "KEY", 1, 0, 200, url="http://site.example/1", size_bytes=9, md5="0" * 32)
        failed = Done(2, "ORDER", 1, "KEY", 1, 404, 404, "gone", wire_bytes=200, elapsed_ms=7)
        running = Running("ORDER", 1, "KEY", 1, 300)
        rest = (Capacity(9), Deleted(1), Checked(1, True), Checked(2, False))
        machine = MachineHello("botm", "m", machine=5, run="m5", capacity=2, session="m5.1", via="c")

        def said(*messages: Any) -> str:
            return "".join(message.to_xml() for message in messages)

        texts = [
            hello.open_tag() + said(Ready(), done, failed, *rest),
            hello.open_tag() + said(running, Ready(), done) + "<ping clock_ms='5'/>",
            suspect.open_tag() + said(Ready(), *rest, failed),
            central.open_tag()
            + said(machine)
            + "".join(addressed(message, 5) for message in (running, Ready(), done, failed, *rest))
            + said(Gone(5)),
            hello.open_tag() + said(Ready()),
        ]
        return [text.encode() for text in texts]

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return self.port(False, room, late)

    def talk(self, random: Random, line: Line, pieces: Any) -> None:
        """Something is queued, and what the peer says of an order is often said of the one that it has."""
        self._number += 1
        uns = FakeUns(self.world, "honest")
        uns.send_set(self._number, self.hostile, pages(*range(self._number, self._number + 3)), connseq=self._number)
        uns.close()
        whole = b"".join(pieces)
        begin = whole.find(b"<ready/>") + 8
        if begin > 7 and random.random() < 0.8:
            line.say([whole[:begin]])
            self.clock.advance(1)
            line.turn()
            order = line.heard.rpartition(b"<fetch ")[2]
            for name, mark in ((b"id", b"ORDER"), (b"key", b"KEY"), (b"generation", b"GENERATION")):
                value = order.partition(b" " + name + b'="')[2].partition(b'"')[0]
                if value:
                    whole = whole.replace(mark, value)
            rest = whole[begin:]
            step = random.choice((1, 7, 50, 65536)) if len(rest) < 3000 else 65536
            line.say([rest[at : at + step] for at in range(0, len(rest), step)])
        else:
            line.say(pieces)
