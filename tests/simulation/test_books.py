"""What the sites of the simulation remember of what they have told."""

from __future__ import annotations

import pytest

from lcc.model import Source
from lcc.storage.database.migrations import SPIDER
from lcc.storage.spider.orders import CRAWL_ADD, CRAWL_PAUSE
from lcc.testing.simulated.timeline import Timeline

from .sites import Site
from .spoken import Spoken
from .system import System


def test_a_page_that_is_gone_once_more_is_told_once_more() -> None:
    """The answer to the set that told of its first end may come after another set has told that it is back."""
    site = Site(Timeline("1"), 1, "10.9.0.1")
    states = [site.told_of("p0.html")]
    for act in (site.remove, site.change, site.remove, site.change):
        act("p0.html")
        states.append(site.told_of("p0.html"))
    assert len(set(states)) == len(states)


def test_the_operator_resumes_no_crawl_that_is_at_its_end() -> None:
    """He has paused it before, for a while (seed 61031s)."""
    timeline = Timeline("1s")
    system = System(timeline, with_spiders=True)
    try:
        world = system.crawl
        assert world is not None
        world.chance.uniform = lambda *_: 5.0  # type: ignore[method-assign]
        world._operate()
        world.end()
        timeline.run_until(timeline.now + 60.0)
        given = system.database.connection(SPIDER).execute("SELECT kind FROM sporders ORDER BY id").fetchall()
        assert sorted(given) == [(CRAWL_ADD,), (CRAWL_PAUSE,), (CRAWL_PAUSE,)]
    finally:
        system.close()


@pytest.mark.parametrize("is_told", [False, True])
def test_what_a_source_no_longer_says_it_never_says_again(is_told: bool) -> None:
    timeline = Timeline("1")
    spoken = Spoken(Site(timeline, 1, "10.9.0.1"), timeline.random("spoken"), is_told)
    said: dict[tuple[str, Source], list[object]] = {}
    for _ in range(300):
        spoken.live_a_little()
        for path in spoken.named:
            for source in (Source.LISTED, Source.PUSHED):
                states = said.setdefault((path, source), [])
                state = spoken.state(path, source)
                if not states or states[-1] != state:
                    assert state not in states or not state[0], "said, then something else, then this again"
                    states.append(state)
    assert all(len(states) > 5 for states in said.values())
