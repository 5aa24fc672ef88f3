"""The wire of the providers, from both ends, and the UNS's end of its link to the queue manager."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from lcc.model import ProviderStatus, StoredError
from lcc.protocols.cp_uns import write_fault
from lcc.protocols.cp_uns_client import init
from lcc.protocols.cp_uns_server import init_rejected, set_accepted, set_rejected, set_result_open
from lcc.protocols.hello import Hello
from lcc.protocols.uns_qm import Absorbed, NewEpoch, Noted, Ping
from lcc.provider.client import ProviderConversation, Request, Submission, Unreachable, provider_stream
from lcc.roles.uns import fast_set
from tests.fuzz.target import HOSTILE, Target, check
from tests.support.roles.uns import PASSWORD, ROOT, World, absorbed, partial, url
from tests.support.servers.uns import welcome
from tests.support.transports import Line

HOSTILE_PID, HONEST_PID = 7, 8


class QuietWorld(World):
    """Forgets what it did."""

    def start(self) -> None:
        self.disk.log = deque(maxlen=1)  # type: ignore[assignment]
        self.disk.opened = deque(maxlen=1)  # type: ignore[assignment]
        super().start()

    def publish(self, name: str) -> None:
        """An honest provider publishes this; it is accepted."""
        cp = self.login(HONEST_PID)
        cp.send(partial(name))
        self.pump()
        check('<set_accepted received="1"/>' in cp.text, f"the answer was {cp.text}")
        cp.half_close()
        self.pump()
        cp.lose()
        self.cps.remove(cp)
        if self.qm is not None:
            del self.qm.sets[:-1]

    def end(self) -> None:
        if self.qm is not None:
            self.lose_qm()
        self.uns.close()


class Providers(Target):
    """What providers say to a UNS."""

    name = "cp-uns: at the UNS"
    share = 12

    @classmethod
    def seeds(cls) -> list[bytes]:
        login = init(HOSTILE_PID, PASSWORD)
        unprefixed = f'<init xmlns="http://www.lococa.org/1.0"><provider id="7" passwd="{PASSWORD}"/></init>'
        full = url("a", 'm="text/html" md5="0123456789abcdef0123456789abcdef" len="12" mtime="2024-01-02T03:04:05Z"')
        more = url(
            "b?x=1&amp;y=2", 'mimetype="text/plain" s="lang: en" hours="0-8,22-6" ifabsent="yes" outside="drop"'
        )
        gone = url("c", 'op="delete"') + url("d", 'f=""') + url("http://other.example/", 'm="text/html"')
        mixed = f'<lococa:set set="full" urlprefix="{ROOT}">{full}{more}{gone}</lococa:set>'
        bare = f'<set set="partial" urlprefix="{ROOT}">{url("e")}<url c="f" m="text/html">x<y/></url></set>'
        return [
            text.encode()
            for text in (
                login + partial("a", "b", "c"),
                '<?xml version="1.0" encoding="UTF-8"?>\n<!-- x -->\n' + login + mixed,
                login + partial("a") + partial("b") + partial("c"),
                unprefixed + bare,
                login + partial(*map(str, range(60)), kind="full"),
                login,
                init(HOSTILE_PID, "wrong"),
                login + partial(),
            )
        ]

    def __init__(self, home: Path) -> None:
        fast_set.LONG_SET = 1  # short sets reach the way of fast-path elements, too
        self.world = QuietWorld(home, failed_logins=50)
        self.clock = self.world.clock
        stored = StoredError(1, 404, "not found", "http://site.example/x", '["c","x"]', 0)
        self.world.database.statuses[HOSTILE_PID] = ProviderStatus(1, 2, 3, "old-files", 1, 1, (stored,), 0)
        self.world.connect_qm(absorbed)

    def settle(self) -> None:
        self.world.pump()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        protocol = self.world.port.buildProtocol(IPv4Address("TCP", HOSTILE, 4711))
        return Line(protocol, self.settle, room=room, late=late, host=HOSTILE)

    def honest(self) -> None:
        self.world.pass_time(61)  # wrong passwords are forgotten
        self.world.publish("honest")
        check(self.world.incoming_files() == [], "files of sets that were cut off are left")
        check(self.world.uns.forwarder.waiting_count == 0, "sets wait")
        del self.world.qm.sets[:]  # type: ignore[union-attr]

    def close(self) -> None:
        self.world.end()


class Answers(Target):
    """What a UNS says to a provider."""

    name = "cp-uns: at the provider"
    share = 8
    patience_seconds = 400.0

    @classmethod
    def seeds(cls) -> list[bytes]:
        fault = write_fault(1204, f"{ROOT}b", [("c", "b")], "outside")
        begin = set_result_open("lococa")
        return [
            text.encode()
            for text in (
                welcome() + begin + set_accepted("lococa", 2),
                welcome(errors=2, wanted="cache-crash", files_free=3, space_free=7) + begin + fault * 3,
                welcome() + begin + fault + set_accepted("lococa", 1),
                welcome() + begin + set_rejected("lococa", 1101, "no"),
                welcome() + begin + fault * 100 + set_accepted("lococa", 0),
                init_rejected("lococa", 1010, "access denied"),
            )
        ]

    def __init__(self, home: Path) -> None:
        self.clock = Clock()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        urls = [{"c": str(number), "m": "text/html"} for number in range(1200)]
        conversation = ProviderConversation(self.clock, Request(7, "password", urls, faults_kept=10))
        self._results: list[Any] = []
        conversation.done.addBoth(self._results.append)
        return Line(provider_stream(self.clock, conversation, 300), self.settle, room=room, late=late)

    def play(self, random: Random, pieces: Any) -> Line | None:
        line = super().play(random, pieces)
        (result,) = self._results  # there is an answer, and one only
        if not isinstance(result, Submission):
            result.trap(Unreachable)
        return line

    def honest(self) -> None:
        line = self.connect()
        line.say([(welcome() + set_result_open("lococa")).encode()])
        for _ in range(10):
            line.turn()
        line.say([set_accepted("lococa", 1200).encode()])
        line.lose()
        (result,) = self._results
        check(isinstance(result, Submission) and result.accepted and result.received == 1200, f"it got {result}")


class Link(Target):
    """What a queue manager says to a UNS."""

    name = "uns-qm: at the UNS"
    share = 4
    allowed = ("restored from a backup",)
    streams = 50

    @classmethod
    def seeds(cls) -> list[bytes]:
        hello = Hello("qm", "qm", run="1", clock_ms=5).open_tag()
        answers = "".join(Absorbed("epoch1", number, 0).to_xml() for number in range(1, 4))
        refused = Absorbed("epoch1", 1, 1102, "bad set").to_xml()
        rest = Noted(7).to_xml() + Ping().to_xml() + NewEpoch("epoch1").to_xml()
        texts = (hello + answers, hello + refused + answers, hello + rest, hello + answers + "</lcc:stream>", hello)
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self._epochs = 0
        self.world = QuietWorld(home)
        self.clock = self.world.clock
        self.world._token = self._token
        for name in "abc":
            self.world.send_set(name, HOSTILE_PID).lose()
        self.world.cps.clear()

    def _token(self) -> str:
        self._epochs += 1
        return f"epoch{self._epochs}"

    def settle(self) -> None:
        self.world.pump()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return Line(
            self.world.uns.forwarder.upstream_factory().buildProtocol(None), self.settle, room=room, late=late
        )

    def talk(self, random: Random, line: Line, pieces: Any) -> None:
        """A provider publishes while the link is up, so that there is something to answer."""
        line.say(pieces[:1])
        if random.random() < 0.3:
            cp = self.world.login(HONEST_PID)
            cp.send(partial(str(random.random())))
            self.world.pump()
            line.say(pieces[1:])
            cp.lose()
            self.world.cps.remove(cp)
        else:
            line.say(pieces[1:])

    def honest(self) -> None:
        world = self.world
        qm = world.connect_qm(absorbed)
        world.pump()
        world.publish("honest")
        check(world.uns.forwarder.waiting_count == 0, "sets wait")
        check(qm.sets, "nothing came")
        world.lose_qm()
        # Something waits for the next streams.
        for name in "abc":
            world.send_set(name, HONEST_PID).lose()
        world.cps.clear()
        world.database.sessions.clear()

    def close(self) -> None:
        self.world.end()
