"""What is promised of pushes (doc/push.md): what is accepted is stored, and is told unless its key is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from lcc.domain.urls import normalise
from lcc.model import Source
from lcc.model.push.pushes import KeyState
from lcc.storage.database.migrations import MAIN, PUSH
from lcc.storage.database.transactions import Access
from lcc.storage.views.inspect import errors_below

from .by_http import SetsByHttp
from .one_lcc import Lcc
from .pushers import PushedPages, PushingSite
from .sites import Site

_WAITING, _READY, _TOLD, _REFUSED = range(4)
_SETS = "SELECT s.number, s.state, s.urls, s.answer, k.keytext FROM pushset s JOIN pushkey k ON k.id = s.keyid"
_LOOKED_AT = ", ".join(f"'{each.value}'" for each in (KeyState.WAITING, KeyState.APPROVAL, KeyState.APPROVED))


class PushPromises:
    """Watches a push server.

    :param sites: those that push.
    :param tellers: those that tell sets.
    :param told: called with epoch and number of each set that the UNS has accepted.
    :param broken: told what was, with the promise that it breaks.
    :ivar stored: called in turn after each of its transactions: it has not heard of that yet.
    """

    def __init__(
        self,
        lcc: Lcc,
        sites: list[Site],
        tellers: list[Site],
        told: Callable[[str, int], None],
        broken: Callable[[str, str], None],
    ) -> None:
        self._lcc = lcc
        self._timeline = lcc.world.timeline
        self._sites = sites
        self._pushed: dict[str, PushedPages] = {site.pushed.key: site.pushed for site in sites}
        self._by_http: list[SetsByHttp] = [site.by_http for site in tellers if site.by_http is not None]
        self._told = told
        self._broken = broken
        self._stored: dict[str, float] = {}
        """URL -> when it was seen last among those that wait."""
        self._answered: set[int] = set()
        for site in sites:
            site.pushed.accepted = partial(self._accepted, site)

    @property
    def counts(self) -> dict[str, int]:
        """What there was of pushes."""
        names = sorted({name for pushed in self._pushed.values() for name in pushed.counts})
        return {
            "sites that push": len(self._sites),
            "sets by http": sum(sets.requests for sets in self._by_http),
            "sets by http accepted": sum(sets.accepted for sets in self._by_http),
            "pushed sets told": len(self._answered),
            **{f"pushes {name}": sum(pushed.counts[name] for pushed in self._pushed.values()) for name in names},
        }

    # While it runs.

    def committed(self) -> None:
        """A transaction has written its tables."""
        connection = self._lcc.database.connection(PUSH)
        for number, state, urls, answer, key in connection.execute(_SETS).fetchall():
            if state in (_WAITING, _READY):
                self._stored.update((url["c"], self._timeline.now) for url in json.loads(urls))
            elif number not in self._answered:
                self._answered.add(number)
                self._was_answered(number, state, answer, self._pushed[key])
        proven = f"SELECT keytext FROM pushkey WHERE state = '{KeyState.PROVEN.value}'"
        for (key,) in connection.execute(proven).fetchall():
            if not self._pushed[key].key_was_read:
                self._broken("push", f"the key of {self._pushed[key].root} is proven, and was not read")

    def _was_answered(self, number: int, state: int, answer: str, pushed: PushedPages) -> None:
        if state == _TOLD:
            ((epoch,),) = self._rows("SELECT value FROM meta WHERE name = 'push_epoch'")
            self._told(epoch, number)
        elif not pushed.was_spoilt:
            self._broken("P2", f"a push of {pushed.root}, whose key file was never wrong, is dropped: {answer}")
        if state == _TOLD and answer:
            self._broken("P2", f"what {pushed.root} has pushed is refused: {answer}")

    def _accepted(self, site: Site, paths: list[str], began: float) -> None:
        """A site is told that it was: it must be stored since then."""
        for path in paths:
            url = normalise(site.url(path))
            if self._stored.get(url, 0.0) < began:
                self._broken("P1", f"the push of {url} is accepted, and is not stored")

    def _rows(self, sql: str) -> list[tuple[str, ...]]:
        return self._lcc.database.connection(PUSH).execute(sql).fetchall()

    # In the end.

    def find_sites(self) -> None:
        """Which provider each is: the tables may have been put back."""
        for site in self._sites:
            if isinstance(site, PushingSite):
                sql = "SELECT r.pid FROM proots r JOIN pidb p ON p.pid = r.pid WHERE r.root = ? AND p.removed = 0"
                rows = self._lcc.rows(sql, [site.pushed.root])
                site.pid = rows[0][0] if rows else 0

    def undone(self) -> list[str]:
        """What is left to be done."""
        left = [
            f"{pushed.root} has to push {[*pushed.untold, *pushed.unsure]}"
            for pushed in self._pushed.values()
            if not pushed.is_done
        ]
        left += [
            f"pushed set {number} waits" for (number,) in self._rows("SELECT number FROM pushset WHERE state < 2")
        ]
        looked_at = f"SELECT site, state FROM pushkey WHERE state IN ({_LOOKED_AT})"
        left += [f"the key of {site} is {state}" for site, state in self._rows(looked_at)]
        self.find_sites()
        for site in self._sites:
            asked = site.pid, Source.PUSHED, site.pushed.root, 100
            errors = self._lcc.database.run(Access.SNAPSHOT, errors_below, asked, MAIN)
            left += [f"{error.url} could not be fetched" for error in errors if not site.pushed.knows(error)]
        return left

    def check_the_end(self) -> None:
        """Everything has healed and drained."""
        for pushed in self._pushed.values():
            for text in pushed.wrong:
                self._broken("push", text)
        for sets in self._by_http:
            for text in sets.wrong:
                self._broken("push", text)
