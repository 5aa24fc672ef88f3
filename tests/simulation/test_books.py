"""What the sites of the simulation remember of what they have told."""

from __future__ import annotations

import pytest

from lcc.model import Source
from lcc.model.spider.crawls import UrlState, bucket_of
from lcc.storage.database.migrations import SPIDER
from lcc.storage.spider.orders import CRAWL_ADD, CRAWL_PAUSE
from lcc.testing.simulated.timeline import Timeline

from .crawl_promises import CrawlPromises, Row
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


def test_a_token_of_a_lost_timeline_says_nothing_of_what_has_its_numbers_now() -> None:
    """An answer of before a restore comes after it (seeds 64029r, 64031r)."""
    system = System(Timeline("1s"), with_spiders=True)
    try:
        assert system.crawl is not None
        broken: list[str] = []
        url = "http://10.1.0.1/a"
        promises = CrawlPromises(
            *(system.crawl, lambda _, text: broken.append(text), lambda _: [(7, url, "01", 1, 1)], {"now": 9}.get, {})
        )
        promises._known[url], promises._changed[7] = 0, (1, url)
        bucket = bucket_of("10.1.0.1")
        for change, md5, timeline, faults in (
            *((0, "", "lost", 0), (0, "", "now", 1), (7, "01", "now", 0)),
            *((7, "02", "now", 1), (8, "01", "now", 1)),  # versions of other timelines
        ):
            broken.clear()
            row = Row(UrlState.CACHED, change, md5, 0, b"")
            promises._check_token(bucket, f"{timeline}.5.0.0", f"{timeline}.8.0.0", {url: row})
            assert len(broken) == faults, (change, md5, timeline)
        broken.clear()
        promises._check_token(bucket, "now.5.0.0", "now.10.0.0", {url: Row(UrlState.TOLD, 0, "", 0, b"")})
        assert not broken, "the tables went back behind it, and no queue manager has begun another timeline yet"
    finally:
        system.close()
