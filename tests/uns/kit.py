"""What several tests of the UNS need: answers, and a queue manager that gives them when it is told to."""

from __future__ import annotations

from typing import Any

from lcc.protocols.uns_qm import Set
from tests.support.roles.uns import ROOT, World, absorbed


def accepted(cp: Any) -> bool:
    """A provider's set was accepted."""
    return "<set_accepted" in cp.text


def names(qm: Any) -> list[str]:
    """The first page of each set that a queue manager has taken whole."""
    return [taken.notices[0].curl.removeprefix(ROOT) for taken in qm.sets if taken.whole]


class Answers:
    """A queue manager that answers when it is told to.

    :ivar sets: those that it has, in order.
    """

    def __init__(self, world: World) -> None:
        self.sets: list[Set] = []
        self.qm = world.connect_qm(self._keep)
        self.world = world

    def _keep(self, begin: Set) -> None:
        self.sets.append(begin)

    def answer(self, count: int = 1) -> None:
        for _ in range(count):
            self.qm.say(absorbed(self.sets.pop(0)))
        self.world.pump()
