"""A full set of 200 URLs, cut after any byte: of what the provider sends, and of what the UNS answers.

The LCC has an older set; the new one names 5 pages that were not there, 5 that have changed, and no longer names 5.

What holds: a set whose last byte did not arrive changes nothing, not one row of the database (P3): nothing is
deleted.  After a cut in the answer, the cache is either as it was or entirely as the set says, and as the set says
wherever the provider heard ``set_accepted`` (P1).  After the provider has submitted the set again, the cache is as
the set says (P5).  Sets that were not accepted count against no allowance.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import attrs

from tests.support.net import Cut, How
from tests.support.roles.chain import CUT_OFF, ROOT, World

URLS = 200
TURNING = 5
REFUSED = [{"c": f"bad{number}", "m": "none"} for number in range(5)]
"""So that the UNS has something to say while the set arrives."""


def _told(name: str, data: bytes) -> dict[str, str]:
    return {"c": name, "m": "text/html", "md5": md5(data).hexdigest(), "len": str(len(data)), "mtime": "1"}


class FullSet:
    """The conversation; each one makes the LCC go from one set to the next one.

    :param folder: for the LCC.
    :param prepared: see :class:`~tests.support.roles.chain.World`.
    """

    def __init__(self, folder: Path, prepared: Path) -> None:
        self._world = World(folder, prepared)
        self._version = 0
        self._pages: dict[str, bytes] = {}
        self._accepted = 0
        urls = self._next()
        for _ in range(2):  # the lengths of the second one hold for those that follow
            self._publish(urls)
            urls = self._next()
        self._urls = urls
        last = self._last_connection
        self._said = dict(self._world.net.traffic["uns", last].given)
        self.rounds = 0

    @property
    def _last_connection(self) -> int:
        return max(index for wire, index in self._world.net.traffic if wire == "uns")

    def cuts(self, hows: tuple[How, ...] = ("fin", "rst")) -> Iterator[Cut]:
        """All cuts there are."""
        for up in (True, False):
            for after in range(self._said[up] + 1):
                for how in hows:
                    yield Cut("uns", up, after, how)

    def _next(self) -> list[dict[str, str]]:
        """The next version of the site: told; fetched it is from now on."""
        self._version += 1
        old, turn = self._pages, self._version
        names = [f"p{number:03}" for number in range(URLS - TURNING)]
        changed = {names[(turn * TURNING + number) % len(names)] for number in range(TURNING)}
        size = 10 + turn % 89
        pages = {}
        for name in names:
            url = ROOT + name
            pages[url] = bytes(size) if name in changed or url not in old else old[url]
        for number in range(TURNING):
            pages[f"{ROOT}t{turn % 10_000:04}{number}"] = b"turning " * 2
        self._before, self._pages = old, pages
        self._world.origin.pages = pages
        return [_told(url.removeprefix(ROOT), data) for url, data in pages.items()] + REFUSED

    def _publish(self, urls: list[dict[str, str]]) -> None:
        heard = self._world.submit(urls, full=True)
        assert heard.answer is not None and heard.answer.accepted and heard.answer.received == URLS, heard
        assert heard.answer.fault_count == len(REFUSED)
        self._accepted += 1
        self._world.drain()
        self._world.check_content(self._pages)

    def run(self, cut: Cut) -> None:
        """Submit the next version, cut there; then whole.

        :raises AssertionError: a promise is broken.
        """
        world, net = self._world, self._world.net
        self.rounds += 1
        net.to_cut, net.was_cut = attrs.evolve(cut, index=self._last_connection + 1), False
        connections = len([one for one in net.open_connections if one.wire != "uns"])
        before = world.tables()
        heard = world.submit(self._urls, full=True)
        assert net.was_cut, "it was not cut: nothing is tested"
        self._check_cut(cut, heard, before)
        assert heard.answer is None or heard.answer.accepted or heard.answer.code == CUT_OFF
        net.to_cut = None
        self._publish(self._urls)
        left = world.welcomes[-1].full_sets_left
        assert left is not None
        assert 0 <= 1_000_000 - left - self._accepted + 1 <= self.rounds, "sets that were cut off were counted"
        if cut.how == "silence":
            net.skip(1000)
        assert len(net.open_connections) == connections, net.open_connections
        self._urls = self._next()
        net.traffic = dict(list(net.traffic.items())[-3:])

    def _check_cut(self, cut: Cut, heard: Any, before: Any) -> None:
        world = self._world
        whole = self._said[True] - 1  # the line's end behind the last tag is not needed
        if cut.up and cut.after_bytes < whole:
            assert heard.answer is None or heard.answer.code == CUT_OFF, "a set was accepted that did not arrive"
            after = world.tables()
            changed = {name: set(rows) ^ set(after[name]) for name, rows in before.items() if after[name] != rows}
            assert not changed, f"a set that was cut off has changed something: {changed}"
            return
        world.drain()
        if world.tables() == before:
            assert heard.answer is None, "what was accepted is not there"
            assert not cut.up, "a set that arrived was not taken"
            assert cut.after_bytes < self._said[False]
        else:
            assert heard.answer is not None or heard.uncertain, "the provider believes that it sent no whole set"
            world.check_content(self._pages)

    def end(self) -> None:
        """Stop everything; nothing may be left."""
        self._world.check_at_rest(silent=True)
        self._world.stop()
