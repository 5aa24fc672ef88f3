"""Both ends that a central BOT-M talks to."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Hello
from lcc.protocols.work import (
    DOWN,
    UP,
    MachineHello,
    addressed,
    addressee,
)
from lcc.protocols.xmlfeed import Start
from lcc.roles.peer import Peer
from tests.support.roles.robots import FakePeer

BOTM_ROLE = frozenset(["botm"])


class Upper(Peer):
    """The end above: notes what each machine says."""

    def __init__(self, clock: Clock, role: str = "qm") -> None:
        super().__init__(clock, Hello(role, "top", run="t1"), BOTM_ROLE, Vocabulary())
        self.heard: list[tuple[int, Flat]] = []

    def elements_received(self, elements: list[Start]) -> None:
        self.heard += [(addressee(name, told), UP.read(name, told)) for name, told, _depth in elements]

    def tell(self, machine: int, *messages: Flat, session: str = "") -> None:
        self.stream.send("".join(addressed(message, machine, session) for message in messages))

    def of(self, machine: int) -> list[Flat]:
        """What a machine has said, its hello left out."""
        said = [message for number, message in self.heard if number == machine]
        return [message for message in said if not isinstance(message, MachineHello)]

    def hellos(self) -> list[MachineHello]:
        return [message for _, message in self.heard if isinstance(message, MachineHello)]


def machine_botm(clock: Clock, machine: int, run: str = "", **said: Any) -> FakePeer:
    """A BOT-M's end, as the one above it sees it; it has 4 robots and says nothing by itself."""
    run = run or f"r{machine}"
    return FakePeer(clock, Hello("botm", f"m{machine}", machine=machine, run=run, capacity=4, **said), "botm", DOWN)
