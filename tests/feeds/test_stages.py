"""The ten stages and the five plugins; each stage failing once."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from zope.interface.verify import verifyObject

from lcc.errors import ConfigError
from lcc.feeds.faults import FeedFault, NotAFeed, TemporaryFeedFault
from lcc.feeds.full_content import FullContentPlugin
from lcc.feeds.parsing import ParseLimits
from lcc.feeds.registry import installed_plugins, plugin_named
from lcc.feeds.run import STAGES, FeedRun, RunLimits, run_stages
from lcc.interfaces import IFeedPlugin
from lcc.model.feed_options import ANYWHERE, DEFAULT_PLUGIN, SAME_HOST
from lcc.model.items import as_json, read_harvest
from tests.feeds.runs import NOW, URL, Kept, rss, worked

TWO = rss(
    "<title>A &amp;lt; one</title><link>/1</link><guid>1</guid><description>x &lt;b&gt;y&lt;/b&gt;</description>",
    "<title>two</title><link>/2</link><guid>2</guid>",
)


def test_the_five_plugins() -> None:
    plugins = installed_plugins()
    assert list(plugins) == ["default", "feed", "full-content", "permalink", "url"]
    for plugin in plugins.values():
        verifyObject(IFeedPlugin, plugin)
        assert plugin.summary
    assert DEFAULT_PLUGIN in plugins
    with pytest.raises(ConfigError, match="no feed plugin 'x'; there are default, feed"):
        plugin_named("x")


def test_the_stages_run_in_the_seeds_order() -> None:
    called: list[str] = []

    class Told(FullContentPlugin):
        def __getattribute__(self, name: str) -> Any:
            if name in STAGES:
                called.append(name)
            return super().__getattribute__(name)

    worked(TWO, Told())
    assert called == [
        *("open", "fetch", "fetchclean", "parse", "filter"),
        *("clean", "clean", "process", "process", "storefeed", "store", "store", "close"),
    ]
    assert list(dict.fromkeys(called)) == list(STAGES)


def test_the_default_plugin_fetches_nothing() -> None:
    with pytest.raises(FeedFault, match="fetch: the plugin default fetches nothing"):
        worked(TWO, "default")


def test_the_url_plugin_has_the_content_and_no_items() -> None:
    assert worked(b"anything", "url").stored == []


def test_the_feed_plugin_stores_nothing() -> None:
    kept = worked(TWO, "feed")
    assert (kept.stored, kept.notified) == ([], [])


def test_the_full_content_plugin_stores_feed_and_items() -> None:
    kept = worked(TWO)
    assert kept.stored[0]["feed"]["title"] == "News" and kept.stored[0]["policy"] == "id"
    assert [item["link"] for item in kept.items] == ["http://feeds.example.org/1", "http://feeds.example.org/2"]
    assert kept.items[0]["text"] == "x y"
    assert not any("permalink" in each for each in kept.stored) and kept.notified == []
    harvest = read_harvest(map(as_json, kept.stored))
    assert len(harvest.items) == 2 and harvest.policy == "id"
    assert json.loads(harvest.items[0].record)["title"] == kept.items[0]["title"]


def test_the_policy_is_kept() -> None:
    kept = worked(TWO, policy="link")
    assert kept.stored[0]["policy"] == "link"
    assert kept.stored[1]["identity"] != worked(TWO).stored[1]["identity"]
    # Nothing to decide it by.
    assert worked(rss()).stored == [{"feed": kept.stored[0]["feed"], "policy": ""}]


@pytest.mark.parametrize(
    ("permalinks", "wanted"),
    [
        ("", [None, None, None, None, None]),
        (SAME_HOST, ["http://feeds.example.org/1", None, None, None, None]),
        (ANYWHERE, ["http://feeds.example.org/1", "http://other.example.org/2", None, None, None]),
    ],
)
def test_permalinks_are_named_where_they_are_wanted(permalinks: str, wanted: list[str | None]) -> None:
    links = ["/1", "http://other.example.org/2", "javascript:x()", "http://[", "http://me@feeds.example.org/3"]
    kept = worked(rss(*[f"<title>{link}</title><link>{link}</link>" for link in links]), permalinks=permalinks)
    assert [each.get("permalink") for each in kept.stored[1:]] == wanted


def test_a_json_feed_is_recognized() -> None:
    data = b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "content_html": "<p>x"}]}'
    for content_type in ("application/feed+json", "application/json", "text/plain", ""):
        assert worked(data, content_type=content_type).items[0]["text"] == "x"


PAGE = b"<html lang=en><title>Page</title><article>" + b"<p>Here is a sentence of the article.</p>" * 9


def test_the_permalink_plugin_stores_the_text_of_a_page() -> None:
    kept = worked(PAGE, "permalink", key="ab" * 20, md5="cd" * 16, content_type="text/html", feed_id="3", item="ef")
    (stored,) = kept.stored
    assert (stored["key"], stored["md5"], stored["title"], stored["language"]) == ("ab" * 20, "cd" * 16, "Page", "en")
    assert "sentence" in stored["text"]
    (row,) = read_harvest([as_json(stored)]).texts
    assert row.key == b"\xab" * 20 and row.text.title == "Page"
    with pytest.raises(FeedFault, match="store: this job is not for a page of the cache"):
        worked(PAGE, "permalink", content_type="text/html")
    with pytest.raises(FeedFault, match="parse: content of type image/png has no text"):
        worked(PAGE, "permalink", key="ab" * 20, md5="cd" * 16, content_type="image/png")


def test_documents_that_are_too_long_or_not_there() -> None:
    with pytest.raises(FeedFault, match="fetch: the document has more than 10 bytes, the most that is read"):
        worked(TWO, limits=RunLimits(content_bytes_max=10))
    with pytest.raises(FeedFault, match="fetch: no content was fetched"):
        run_stages(plugin_named("feed"), FeedRun(URL, None, Kept(), now=NOW))


def test_items_that_are_too_long_lose_their_content() -> None:
    data = rss(f"<title>t</title><description>{'d' * 3000}</description><link>/1</link>")
    kept = worked(data, limits=RunLimits(record_bytes_max=2000))
    assert kept.items == [{"link": "http://feeds.example.org/1", "title": "t", "links": kept.items[0]["links"]}]


def test_all_items_together_are_limited() -> None:
    data = rss(*[f"<title>t{n}</title><description>{'d' * 3000}</description>" for n in range(20)])
    kept = worked(data, limits=RunLimits(stored_bytes_max=50_000))
    assert len(as_json(kept.stored)) < 50_000 and len(kept.items) == 20
    assert "text" in kept.items[0] and "text" not in kept.items[10] and "text" not in kept.items[19]
    kept = worked(data, limits=RunLimits(stored_bytes_max=2000))
    assert len(kept.items) < 10 and "items are left out: all together are longer" in kept.logs[-1]


def test_a_hundred_thousand_items_are_cut_at_the_limit() -> None:
    """feedparser takes seconds for so many: fewer here, the rule is the same."""
    data = rss(*[f"<guid>{n}</guid>" for n in range(2000)])
    kept = worked(data, limits=RunLimits(parse=ParseLimits(items_max=500)))
    assert len(kept.items) == 500 and "only the first 500 of 2000 items are read" in kept.logs


def test_html_instead_of_a_feed_is_permanent() -> None:
    with pytest.raises(NotAFeed, match="parse: this is an HTML page") as caught:
        worked(b"<!doctype html><p>Maintenance")
    assert caught.value.permanent


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FeedFault("no"), FeedFault, "{}: no"),
        (TemporaryFeedFault("later"), TemporaryFeedFault, "{}: later"),
        (OSError(28, "No space left"), TemporaryFeedFault, "{}: OSError(28, 'No space left')"),
        (MemoryError(), FeedFault, "{}: out of memory ([manager] memory_bytes)"),
        (KeyError("x"), FeedFault, "{}: the plugin should be mended: KeyError('x')"),
    ],
)
def test_each_stage_failing_once(stage: str, error: Exception, kind: type[FeedFault], words: str) -> None:
    failures = [error]
    closed = []

    class Failing(FullContentPlugin):
        def __getattribute__(self, name: str) -> Any:
            if name == "close":
                closed.append(name)
            if name == stage and failures:
                found = failures.pop()

                def fail(*_: Any) -> Any:
                    raise found

                return fail
            return super().__getattribute__(name)

    kept = Kept()
    plugin = Failing()
    with pytest.raises(kind) as caught:
        run_stages(plugin, FeedRun(URL, io.BytesIO(TWO), kept, now=NOW, permalinks=ANYWHERE))
    assert str(caught.value) == words.format(stage) and type(caught.value) is kind
    # Nothing of it takes effect; it was cleaned up, unless it was never opened.
    assert (kept.stored, kept.notified) == ([], [])
    assert closed == ([] if stage == "open" else ["close"])
    # And again.
    run_stages(plugin, FeedRun(URL, io.BytesIO(TWO), kept, now=NOW))
    assert len(kept.items) == 2


def test_a_failure_to_clean_up_does_not_hide_the_first_one() -> None:
    class Failing(FullContentPlugin):
        def parse(self, run: Any, data: bytes) -> Any:
            raise FeedFault("first")

        def close(self, run: Any) -> None:
            raise ValueError("second")

    kept = Kept()
    with pytest.raises(FeedFault, match="parse: first"):
        run_stages(Failing(), FeedRun(URL, io.BytesIO(TWO), kept, now=NOW))
    assert kept.logs == ["close: ValueError('second')"]


@pytest.mark.parametrize("stage", ["parse", "filter"])
def test_a_stage_that_gives_nonsense_fails_itself(stage: str) -> None:
    closed = []

    class Wrong(FullContentPlugin):
        def __getattribute__(self, name: str) -> Any:
            if name == "close":
                closed.append(name)
            return (lambda *_: None) if name == stage else super().__getattribute__(name)

    with pytest.raises(FeedFault, match=f"{stage}: the plugin should be mended: TypeError"):
        worked(TWO, Wrong())
    assert closed == ["close"]


def test_a_filter_may_be_a_generator() -> None:
    class Some(FullContentPlugin):
        def filter(self, run: Any, items: Any) -> Any:
            yield from items[1:]
            if run.policy == "hash":
                raise ValueError("late")

    assert [item["title"] for item in worked(TWO, Some()).items] == ["two"]
    with pytest.raises(FeedFault, match="filter: the plugin should be mended: ValueError"):
        worked(TWO, Some(), policy="hash")


def test_what_overriding_a_stage_does() -> None:
    class Own(FullContentPlugin):
        def filter(self, run: FeedRun, items: Any) -> Any:
            return [item for item in items if "two" in item.title]

        def process(self, run: FeedRun, item: Any) -> Any:
            run.notify("http://feeds.example.org/also")
            return attrs.evolve(item, title=item.title.upper())

    kept = worked(TWO, Own())
    assert [item["title"] for item in kept.items] == ["TWO"]
    assert kept.notified == [("http://feeds.example.org/also", "feed")]


PLUGIN = """
from lcc.feeds.full_content import FullContentPlugin

class Mine(FullContentPlugin):
    name = "mine"
    summary = "mine"

mine = Mine()
"""
SHOW = "from lcc.feeds.registry import installed_plugins; print(*installed_plugins())"


def shown(*path: Path) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, path)))
    return subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, timeout=60)


def test_a_plugin_in_one_file_in_another_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lcc" / "feeds" / "plugins"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(PLUGIN)
    (folder / "broken.py").write_text("import there_is_no_such_module\n")
    done = shown(tmp_path)
    assert done.stdout.split() == sorted([*installed_plugins(), "mine"]), done.stderr
    assert "there_is_no_such_module" in done.stderr


def test_two_plugins_of_one_name(tmp_path: Path) -> None:
    folder = tmp_path / "lcc" / "feeds" / "plugins"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(PLUGIN.replace('"mine"', '"feed"'))
    done = shown(tmp_path)
    assert done.returncode and "two feed plugins are named 'feed'" in done.stderr


def test_hubs_of_headers_come_first() -> None:
    head = '<link rel="hub" href="http://b.example.net/" xmlns="http://www.w3.org/2005/Atom"/>'
    links = '<http://a.example.net/>; rel="hub", <feed.xml?x>; rel=self\n</style.css>; rel=stylesheet'
    [feed] = [each["feed"] for each in worked(rss(head=head), links=links).stored if "feed" in each]
    found = [(each["rel"], each["url"]) for each in feed["links"]]
    self_url = "http://feeds.example.org/news/feed.xml?x"
    assert found[:2] == [("hub", "http://a.example.net/"), ("self", self_url)]
    assert ("hub", "http://b.example.net/") in found[2:] and "stylesheet" not in dict(found)
