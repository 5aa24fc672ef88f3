"""Each wire from the provider to the robot, cut after any byte of what is said there while pages come and go.

The conversation: a provider tells five pages, one of which is not there, and meanwhile another one four pages; then
one has changed and one is deleted; at last the provider hears of the error.  That gives sets, orders, results,
acknowledgements and delete orders on every wire.  Of each wire it is the connection with all of this that is cut;
whoever made it makes it again.

What holds, wherever it is cut (design.md 6): the cache has exactly what was told last, each page with its file and no
file besides (P2, P7); each change is recorded once, however often results were sent (P4); no order is lost or carried
out by two; the one error is counted once and told (P8); never two fetches at once (P6); and nothing hangs: the links
are up again, and when all is stopped no timer and no connection is left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from tests.support.net import HOWS, SILENT_EVERY, Cut, How
from tests.support.roles.chain import OTHER_PID, OTHER_ROOT, PID, ROOT, World

WIRES = (("uns", 0), ("uns", 2), ("qm", 0), ("qm-botm", 0), ("central", 1), ("botm", 0))
"""Address and how manieth connection: the provider's two, then those that UNS, central BOT-M, BOT-M and BOT make.

(The first one of the BOT-M was turned away, because the central BOT-M was not connected yet.)"""

FIRST = [{"c": name, "m": "text/html", "len": "1"} for name in "abcdx"]
THEN = [{"c": "a", "m": "text/html", "len": "5"}, {"c": "b", "op": "delete"}]
OTHERS = [{"c": name, "m": "text/html"} for name in "efgh"]
OTHER_PAGES = {OTHER_ROOT + name: name.encode() for name in "efgh"}
END = {f"{ROOT}a": b"new a", f"{ROOT}c": b"c", f"{ROOT}d": b"d"} | OTHER_PAGES
CHANGES = 10
FETCH_SECONDS = {PID: 1.5, OTHER_PID: 1.0}
"""Longer than it takes to connect again and to give an order to another: what goes on by mistake meets that.  And
something is said of each provider's pages while one of the other is being fetched."""
MENDED_SECONDS = {"fin": 12.0, "rst": 12.0, "silence": 60.0}
"""After so long all is done, which takes 7.5 s without a cut: where the end is told, nobody waits for a timeout."""
TOLD_TWICE_SECONDS = len(FIRST) * FETCH_SECONDS[PID]
"""What a provider costs that did not hear that its set was accepted: it tells all again, and all is fetched again."""


class Chain:
    """The conversation.

    :param prepared: see :class:`~tests.support.roles.chain.World`.
    """

    def __init__(self, prepared: Path) -> None:
        self._prepared = prepared
        self._said: dict[tuple[str, int], dict[bool, int]] = {}
        self.run(None)

    def cuts(self, hows: tuple[How, ...] = HOWS) -> Iterator[Cut]:
        """All cuts there are: before the first byte, and after each one; silence less often."""
        for wire, index in WIRES:
            for up in (True, False):
                for after in range(self._said[wire, index][up] + 1):
                    for how in hows:
                        if how != "silence" or after % SILENT_EVERY == 0:
                            yield Cut(wire, up, after, how, index)

    def run(self, cut: Cut | None) -> None:
        """Have the conversation, cut there.

        :raises AssertionError: a promise is broken.
        """
        folder = Path(mkdtemp(dir=self._prepared.parent))
        try:
            self._run(World(folder, self._prepared, cut, FETCH_SECONDS.__getitem__), cut)
        finally:
            shutil.rmtree(folder)

    def _run(self, world: World, cut: Cut | None) -> None:
        try:
            seconds = MENDED_SECONDS[cut.how if cut is not None else "fin"]
            provider_cut = cut is not None and cut.wire == "uns"
            tries = self._converse(world, seconds + (TOLD_TWICE_SECONDS if provider_cut else 0.0))
            if cut is None:
                self._said = {key: dict(one.given) for key, one in world.net.traffic.items()}
            else:
                assert world.net.was_cut, "it was not cut: nothing is tested"
            self._check(world, tries, provider_cut)
            world.check_at_rest(silent=cut is not None and cut.how == "silence")
            world.stop()
        finally:
            world.close()

    def _converse(self, world: World, seconds: float) -> int:
        world.origin.pages = {ROOT + name: name.encode() for name in "abcd"} | OTHER_PAGES
        tries = world.publish(FIRST, full=True)
        assert world.publish(OTHERS, pid=OTHER_PID) == 1
        world.add_robot()  # only now: both providers' pages go to the first one, until it is lost
        world.drain(seconds)
        world.origin.pages[f"{ROOT}a"] = b"new a"
        tries += world.publish(THEN)
        world.drain(seconds)
        world.submit(None)
        return tries

    def _check(self, world: World, tries: int, provider_cut: bool) -> None:
        world.check_content(END)
        assert world.changes == CHANGES, f"{world.changes} changes were recorded instead of {CHANGES}"
        assert tries == 2 or provider_cut, "a provider that was not cut off was not answered"
        errors = world.error_count()
        # Told twice (its provider did not hear the answer), it fails twice.
        assert 1 <= errors <= tries - 1, f"{errors} errors were counted"
        told = [fault.url for welcome in world.welcomes for fault in welcome.errors]
        assert f"{ROOT}x" in told, "the provider was never told of the error"
        assert max(world.origin.fetches.values()) <= tries + 1, f"fetched too often: {world.origin.fetches}"

    def end(self) -> None:
        """Each conversation has ended for itself."""
