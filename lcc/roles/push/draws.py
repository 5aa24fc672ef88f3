"""Order numbers of pushes, drawn as they arrive.

Pushes of a provider that arrive while a number is being drawn for it share the next one: a number must not be older
than what it stands for.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from lcc.roles.notifier import NotifierLink, NotifierRefused


class Draws:
    """Draws over a link.

    :param link: None: there is no UNS yet.
    """

    def __init__(self, link: NotifierLink | None = None) -> None:
        self.link = link
        self._waiting: dict[int, list[Deferred[int]]] = {}
        """Provider -> who waits for the number behind the one that is being drawn."""

    def draw(self, pid: int) -> Deferred[int]:
        """The order number of an asking that begins now; 0: none can be drawn at present."""
        answer: Deferred[int] = Deferred()
        if self.link is None or not self.link.connected:
            answer.callback(0)
        elif pid in self._waiting:
            self._waiting[pid].append(answer)
        else:
            self._waiting[pid] = []
            self._ask(self.link, pid, [answer])
        return answer

    def _ask(self, link: NotifierLink, pid: int, answers: list[Deferred[int]]) -> None:
        def drawn(order: int | Failure) -> None:
            waiting = self._waiting.pop(pid)
            if waiting:
                self._waiting[pid] = []
                self._ask(link, pid, waiting)
            if isinstance(order, Failure):
                order.trap(NotifierRefused)
            for answer in answers:
                if not answer.called:  # its request was given up
                    answer.callback(0 if isinstance(order, Failure) else order)

        link.draw(pid).addBoth(drawn)
