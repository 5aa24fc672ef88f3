"""The feed worker as the manager runs it: a fork of the template process, with the content that was fetched."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest_twisted

from lcc.model.items import read_harvest
from lcc.model.polled import PolledContent
from lcc.model.sitemaps import read_stored
from lcc.model.tasks import JobResult, JobState
from tests.support.servers.content_host import ContentHost

from .kit import Rig

URL = "http://feeds.example.org/feed.xml"
KEY = "ab" * 20
FEED = b"""<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>
<item><guid>1</guid><title>One</title><link>/1</link><description>a &lt;b&gt;b&lt;/b&gt;</description></item>
<item><guid>2</guid><title>Two</title><link>http://other.example.org/2</link></item></channel></rss>"""
PAGE = b"<html><title>T</title><body><nav>x</nav><article>" + b"<p>A sentence of some length, and more.</p>" * 8


@pytest_twisted.async_yield_fixture
async def host(rig: Rig) -> AsyncIterator[ContentHost]:
    await rig.listen()
    host = ContentHost(rig.home)
    yield host
    await host.stop()


async def worked(
    rig: Rig,
    host: ContentHost,
    document: bytes,
    *args: str,
    kind: str = "feed",
    content_type: str = "text/xml",
    **more: Any,
) -> JobResult:
    file = host.add(document)
    md5 = hashlib.md5(document).hexdigest()
    polled = PolledContent(URL, 1, file, len(document), md5, KEY, "", content_type)
    return await rig.run("", URL, *args, kind=kind, task=3, input=polled.to_json(), **more)


@pytest_twisted.ensureDeferred
async def test_a_feed_is_read(rig: Rig, host: ContentHost) -> None:
    await rig.start()
    done = await worked(rig, host, FEED, "--full-content")
    assert done.state is JobState.COMPLETED, done
    harvest = read_harvest(done.effects.items)
    assert json.loads(harvest.feed)["title"] == "News" and harvest.policy == "id"
    one, two = harvest.items
    assert json.loads(one.record)["text"] == "a b"
    assert (one.permalink, two.permalink) == ("http://feeds.example.org/1", "")
    # By what the items are known is kept.
    assert done.effects.data is not None and json.loads(done.effects.data) == {"policy": "id"}
    again = await worked(rig, host, FEED, data='{"policy": "link"}')
    assert read_harvest(again.effects.items).policy == "link" and again.effects.data is None


@pytest_twisted.ensureDeferred
async def test_the_text_of_a_page(rig: Rig, host: ContentHost) -> None:
    await rig.start()
    done = await worked(rig, host, PAGE, "7", "cd" * 16, kind="text", content_type="text/html; charset=utf-8")
    assert done.state is JobState.COMPLETED, done
    (page,) = read_harvest(done.effects.items).texts
    assert page.key.hex() == KEY and page.text.title == "T" and "sentence" in page.text.text


@pytest_twisted.ensureDeferred
async def test_a_robots_txt(rig: Rig, host: ContentHost) -> None:
    await rig.start()
    text = b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /\xff\x00x\n"
    done = await worked(rig, host, text, kind="robots", content_type="text/plain")
    assert done.state is JobState.COMPLETED, done
    assert read_harvest(done.effects.items).robots == "User-agent: *\r\nDisallow: /\ufffdx\n"


@pytest_twisted.ensureDeferred
async def test_what_is_no_feed_is_an_error_in_words(rig: Rig, host: ContentHost) -> None:
    await rig.start()
    done = await worked(rig, host, b"<!doctype html><p>Maintenance")
    assert done.state is JobState.PERMANENT and not done.effects.items
    assert "this is an HTML page, not a feed" in done.message
    done = await worked(rig, host, FEED, "--plugin", "no-such")
    assert done.state is JobState.PERMANENT and "there is no feed plugin 'no-such'" in done.message
    done = await worked(rig, host, FEED, "--no-such-option")
    assert done.state is JobState.PERMANENT and "a feed has no option" in done.message
    done = await rig.run("", URL, kind="feed", task=3, input="{}")
    assert done.state is not JobState.COMPLETED and "input" in done.message


@pytest_twisted.ensureDeferred
async def test_a_document_that_takes_too_long_harms_no_other(rig: Rig, host: ContentHost) -> None:
    """Nested markup, which feedparser's sanitizer takes long for."""
    rig.text += 'kinds = ["feed seconds=2 grace_seconds=1 jobs=2"]\n'
    await rig.start()
    bad = FEED.replace(b"a &lt;b&gt;b", b"&lt;a&gt;" * 300_000)
    first = rig.give("", URL, kind="feed", task=4, input=polled_input(host, bad))
    done = await worked(rig, host, FEED)
    assert done.state is JobState.COMPLETED
    ended = await rig.ended(first)
    assert ended.state is not JobState.COMPLETED and not ended.effects.items and "2" in ended.message, ended


def polled_input(host: ContentHost, data: bytes) -> str:
    polled = PolledContent(URL, 1, host.add(data), len(data), hashlib.md5(data).hexdigest(), KEY, "", "text/xml")
    return polled.to_json()


@pytest_twisted.ensureDeferred
async def test_a_sitemap(rig: Rig, host: ContentHost) -> None:
    await rig.start()
    urls = "".join(f"<url><loc>http://feeds.example.org/{at}</loc></url>" for at in range(3))
    done = await worked(rig, host, gzip.compress(f"<urlset>{urls}</urlset>".encode()), kind="sitemap")
    assert done.state is JobState.COMPLETED, done
    read = read_stored(done.effects.items)
    assert (read.kind, read.urls) == ("urlset", 3) and done.effects.data
    again = await worked(rig, host, f"<urlset>{urls}</urlset>".encode(), kind="sitemap", data=done.effects.data)
    assert read_stored(again.effects.items).buckets == {}
    bad = await worked(rig, host, b"<html/>", kind="sitemap")
    assert bad.state is JobState.PERMANENT and "<html> is no sitemap" in bad.message + bad.output
