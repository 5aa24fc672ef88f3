"""Sitemaps as their worker reads them: kinds, limits, what differs."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest

from lcc.feeds import sitemap_worker, sitemaps
from lcc.feeds.faults import FeedFault
from lcc.feeds.sitemap_worker import own_site, seconds_of
from lcc.feeds.sitemaps import Entry, SitemapDocument
from lcc.model.sitemaps import read_stored
from tests.support.sitemaps import URL, capable, changed, pages, resync, urlset, worked


def entries(data: bytes) -> list[Entry]:
    return list(SitemapDocument(io.BytesIO(data)).entries())


@pytest.mark.parametrize(
    "data",
    [
        b"http://h.example/1\nhttp://h.example/2\n",
        b"\xef\xbb\xbf\r\n http://h.example/1 \r\n\r\nhttp://h.example/2",
        urlset("http://h.example/1", " http://h.example/2\n").encode(),
        b"\xef\xbb\xbf" + urlset("http://h.example/1", "http://h.example/2").encode(),
        ('<?xml version="1.0" encoding="UTF-16"?>' + urlset(*pages(1, 2))).encode("utf-16"),
        b"<!-- <urlset> --><?x?><s:urlset xmlns:s='u'><s:url><s:priority>1</s:priority><s:loc>http://h.example/1"
        b"</s:loc></s:url><x/><s:url><s:loc><![CDATA[http://h.example/2]]></s:loc></s:url></s:urlset>",
    ],
)
def test_documents_of_each_kind_packed_and_not(data: bytes) -> None:
    expected = [Entry(url) for url in pages(1, 2)]
    for content in (data, gzip.compress(data), gzip.compress(data[:30]) + gzip.compress(data[30:]) + b"\0\0"):
        assert entries(content) == expected


RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel>
<link>http://h.example/</link><a:link rel="self" href="http://h.example/feed"/><pubDate>yesterday</pubDate>
<item><title>1</title><link> http://h.example/1 </link><pubDate>Thu, 01 Jan 2026 01:00:00 +0100</pubDate></item>
<item><a:link rel="replies" href="http://h.example/r"/><link>http://h.example/2</link></item>
<item><title>no link</title></item><item><link>http://h.example/3</link><pubDate>soon</pubDate></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://h.example/"/>
<entry><link rel="enclosure" href="http://h.example/x.mp3"/><link href="http://h.example/1"/>
<published>2020-01-01T00:00:00Z</published><updated>2026-01-01T00:00:00Z</updated></entry>
<entry><link rel="alternate" href=" http://h.example/2&#10;"/></entry>
<entry><source><link href="http://h.example/source"/></source></entry>
<entry><link href="http://h.example/3"/><published>soon</published></entry></feed>"""
RDF = """<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><link>http://h.example/</link></channel>
<item><link>http://h.example/1</link><dc:date>2026-01-01</dc:date></item>
<item><link>http://h.example/2</link></item><item/>
<item><link>http://h.example/3</link><dc:date>soon</dc:date></item></r:RDF>"""


@pytest.mark.parametrize("data", [RSS, ATOM, RDF], ids=["rss", "atom", "rdf"])
def test_a_feed_is_a_list_of_changes(data: str) -> None:
    """It has the newest pages only: what falls out of it is not gone."""
    said = worked(gzip.compress(data.encode()))
    assert said.stored[-1]["sitemap"]["kind"] == "changelist" and said.urls == {
        "http://h.example/1": "1767225600@1767225600",
        "http://h.example/2": "-?@-?",
        "http://h.example/3": "soon?@soon?",
    }
    assert said.logs == ["1 of 4 URLs are left out: not of http://h.example/, or no URLs"]


def test_every_cut_of_a_piece(monkeypatch: Any) -> None:
    data = urlset("http://h.example/?a=1&amp;b=%C3%BC", *pages(*range(40)), lastmod="2026-01-02").encode()
    expected = entries(data)
    assert expected[0] == Entry("http://h.example/?a=1&b=%C3%BC", "2026-01-02")
    text = "\n".join(pages(*range(40))).encode()
    for size in (1, 2, 3, 7, 50, 1000):
        monkeypatch.setattr(sitemaps, "PIECE_BYTES", size)
        assert entries(data) == entries(gzip.compress(data)) == expected
        assert [each.loc for each in entries(text)] == pages(*range(40))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"<!DOCTYPE html><html><body>not found</body></html>", "root <html>"),
        (b"<rss><channel/>", "well-formed"),
        (b"<!-- nothing", "no root"),
        (urlset(*pages(1)).encode()[:-5], "well-formed"),
        (urlset(*pages("a&b")).encode(), "well-formed"),
        pytest.param(gzip.compress(urlset(*pages(1)).encode())[:-9], "ends early", id="cut off"),
        (b"\x1f\x8b\x08nonsense nonsense", "damaged gzip"),
        (b"x" * (sitemaps.LINE_BYTES_MAX * 3), "a line of more than"),
        (b"<urlset>" + b"<x/>" * 600_000 + b"</urlset>", "without an entry"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'><!ENTITY c '&a;&a;'>]><urlset/>", "bomb"),
    ],
)
def test_what_is_no_sitemap_says_so(data: bytes, why: str) -> None:
    with pytest.raises(FeedFault, match=why):
        entries(data)


@pytest.mark.parametrize("name", ["url", "sitemap"])
def test_an_entry_within_an_entry_takes_nothing_from_it(monkeypatch: Any, name: str) -> None:
    root = {"url": "urlset", "sitemap": "sitemapindex"}[name]
    inner = f"<{name}><loc>http://h.example/1</loc></{name}>"
    text = f"<{root}><{name}><loc>http://h.example/2</loc>{inner}<lastmod>2026</lastmod></{name}></{root}>"
    for size in (1, 40, 1 << 16):
        monkeypatch.setattr(sitemaps, "PIECE_BYTES", size)
        assert entries(text.encode()) == [Entry("http://h.example/1"), Entry("http://h.example/2", "2026")]


def test_a_document_that_unpacks_to_too_much(monkeypatch: Any) -> None:
    monkeypatch.setattr(sitemaps, "DOCUMENT_BYTES_MAX", 3 << 20)
    bomb = gzip.compress(b"http://h.example/1\n" * 500_000)
    assert len(bomb) < 50_000
    with pytest.raises(FeedFault, match="split it"):
        entries(bomb)


def test_no_entity_is_expanded_and_no_file_is_read() -> None:
    data = (
        b"<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/hostname'>]><urlset><url><loc>&f;http://h/</loc></url></urlset>"
    )
    assert entries(data) == [Entry("")]


def test_only_what_differs_is_stored() -> None:
    first = worked(urlset(*pages(*range(1000)), lastmod="2026-01-01"))
    assert len(first.urls) == 1000 and set(first.urls.values()) == {"1767225600"}
    assert first.stored[-1] == {"sitemap": {"kind": "urlset", "urls": 1000, "left_out": 0}}
    # Another order, another way to write it: nothing differs.
    again = worked("\n".join(pages(*range(5))))
    same = worked(urlset(*reversed(pages(*range(5)))), again.data)
    assert (len(same.stored), same.data) == (1, again.data)
    less = worked(urlset(*pages(*range(999)), lastmod="2026-01-01"), first.data)
    assert len(less.stored) == 2 and "http://h.example/999" not in less.urls
    assert worked(urlset(*pages(1)), "damaged").urls == {"http://h.example/1": ""}


def test_a_large_document_is_stored_in_parts(monkeypatch: Any) -> None:
    monkeypatch.setattr(sitemap_worker, "_COMMIT_CHARS", 5000)
    assert worked(urlset(*pages(*range(1000)))).commits == 4


def test_more_urls_than_may_be(monkeypatch: Any) -> None:
    monkeypatch.setattr(sitemap_worker, "URLS_MAX", 10)
    assert len(worked(urlset(*pages(*range(10), *range(10)))).urls) == 10
    with pytest.raises(FeedFault, match=r"more than 10 URLs; Next: "):
        worked(urlset(*pages(*range(11))))


def test_only_its_own_host_is_listed() -> None:
    others = [
        "http://other.example/1",
        "ftp://h.example/",
        "nonsense",
        "http://h.example.org/",
        "http://u@h.example/x",
    ]
    said = worked(urlset("https://h.example/s#part", "HTTP://H.example:80/up", *pages("a\tb"), *others))
    assert sorted(said.urls) == ["HTTP://H.example:80/up", "https://h.example/s"]
    assert said.logs == ["6 of 8 URLs are left out: not of http://h.example/, or no URLs"]
    with pytest.raises(FeedFault, match=r"lists no URL of http://h\.example/: nothing is retracted"):
        worked(urlset(*others))
    assert own_site("https://H.example:8443/s")("https://h.example:8443/x") == "https://h.example:8443/"


def test_an_index_lists_documents_of_its_host_and_not_itself(monkeypatch: Any) -> None:
    locs = [*pages("a.xml", "b.xml.gz", "a.xml#x"), URL, "http://other.example/c.xml"]
    index = "".join(f"<sitemap><loc>{loc}</loc></sitemap>" for loc in locs)
    data = f"<sitemapindex>{index}</sitemapindex>"
    said = worked(data)
    read = read_stored([json.dumps(each) for each in said.stored])
    assert (read.children, read.kind, read.urls, read.left_out) == (pages("a.xml", "b.xml.gz"), "sitemapindex", 2, 2)
    with pytest.raises(FeedFault, match="listed by an index, and may be no index"):
        worked(data, level=3)
    with pytest.raises(FeedFault, match="no sitemap of its site"):
        worked("<sitemapindex/>")
    monkeypatch.setattr(sitemap_worker, "CHILDREN_MAX", 1)
    with pytest.raises(FeedFault, match="more than 1 sitemaps"):
        worked(data)


@pytest.mark.parametrize(
    ("lastmod", "seconds"),
    [
        ("2026-01-01", "1767225600"),
        ("2026-01-01T01:00:00+01:00", "1767225600"),
        ("2026-01-01T00:00:00.5Z", "1767225600"),
        ("1900-01-01", "0"),
        ("2026-01", "2026-01?"),
        ("yesterday\t\n", "yesterday?"),
    ],
)
def test_times(lastmod: str, seconds: str) -> None:
    assert seconds_of(lastmod) == seconds


def test_stored_objects_that_make_no_sense() -> None:
    for text in ('{"item": {}}', '{"sitemap": {"bucket": 256, "urls": ""}}', '{"sitemap": {"children": [1]}}', "[]"):
        with pytest.raises(ValueError, match=r"sense|only"):
            read_stored([text])


# ResourceSync; the examples of its specification (ANSI/NISO Z39.99-2017), with their host.


def test_the_specifications_source_description_and_capability_list() -> None:
    described = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="describedby" href="http://example.com/info_about_source.xml"/>
  <rs:md capability="description"/>
  <url>
      <loc>http://example.com/dataset1/capabilitylist.xml</loc>
      <rs:md capability="capabilitylist"/>
      <rs:ln rel="describedby" href="http://example.com/info_about_set1_of_resources.xml"/>
  </url>
</urlset>"""
    url = "http://example.com/.well-known/resourcesync"
    said = worked(described, url=url)
    assert said.stored == [
        {"sitemap": {"children": ["http://example.com/dataset1/capabilitylist.xml"]}},
        {"sitemap": {"kind": "description", "urls": 1, "left_out": 0}},
    ]
    capabilities = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="describedby" href="http://example.com/info_about_set1_of_resources.xml"/>
  <rs:ln rel="up" href="http://example.com/resourcesync_description.xml"/>
  <rs:md capability="capabilitylist"/>
  <url><loc>http://example.com/dataset1/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>
  <url><loc>http://example.com/dataset1/resourcedump.xml</loc><rs:md capability="resourcedump"/></url>
  <url><loc>http://example.com/dataset1/changelist.xml</loc><rs:md capability="changelist"/></url>
  <url><loc>http://example.com/dataset1/changedump.xml</loc><rs:md capability="changedump"/></url>
</urlset>"""
    said = worked(capabilities, url="http://example.com/dataset1/capabilitylist.xml", level=1)
    lists = [f"http://example.com/dataset1/{name}.xml" for name in ("resourcelist", "changelist")]
    assert said.stored[0] == {"sitemap": {"children": lists}}
    for level in (2, 3):
        with pytest.raises(FeedFault, match="may be no capability list itself"):
            worked(capabilities, level=level)


def test_the_specifications_resource_list_and_change_list() -> None:
    resources = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="http://example.com/dataset1/capabilitylist.xml"/>
  <rs:md capability="resourcelist" at="2013-01-03T09:00:00Z" completed="2013-01-03T09:01:00Z"/>
  <url>
      <loc>http://example.com/res1</loc>
      <lastmod>2013-01-02T13:00:00Z</lastmod>
      <rs:md hash="md5:1584abdf8ebdc9802ac0c6a7402c03b6" length="8876" type="text/html"/>
  </url>
  <url>
      <loc>http://example.com/res2</loc>
      <lastmod>2013-01-02T14:00:00Z</lastmod>
      <rs:md hash="md5:1e0d5cb8ef6ba40c99b14c0237be735e" length="14599" type="application/pdf"/>
      <rs:ln rel="duplicate" href="http://mirror.example.com/res2"/>
  </url>
</urlset>"""
    said = worked(resources, url="http://example.com/dataset1/resourcelist.xml", level=2)
    assert said.urls == {"http://example.com/res1": "1357131600", "http://example.com/res2": "1357135200"}
    changes = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="http://example.com/dataset1/capabilitylist.xml"/>
  <rs:md capability="changelist" from="2013-01-03T00:00:00Z"/>
  <url>
      <loc>http://example.com/res1.html</loc>
      <lastmod>2013-01-03T11:00:00Z</lastmod>
      <rs:md change="created" datetime="2013-01-03T11:00:00Z"/>
  </url>
  <url>
      <loc>http://example.com/res2.pdf</loc>
      <lastmod>2013-01-03T13:00:00Z</lastmod>
      <rs:md change="updated" datetime="2013-01-03T13:00:00Z"/>
  </url>
  <url><loc>http://example.com/res3.tiff</loc><rs:md change="deleted" datetime="2013-01-03T18:00:00Z"/></url>
  <url>
      <loc>http://example.com/res2.pdf</loc>
      <lastmod>2013-01-03T21:00:00Z</lastmod>
      <rs:md change="updated" datetime="2013-01-03T21:00:00Z"/>
  </url>
</urlset>"""
    said = worked(changes, url="http://example.com/dataset1/changelist.xml", level=2)
    assert said.urls == {
        "http://example.com/res1.html": "1357210800@1357210800",
        "http://example.com/res2.pdf": "1357246800@1357246800",
        "http://example.com/res3.tiff": "deleted@1357236000",
    }
    assert all(each["sitemap"]["changes"] for each in said.stored[:-1])
    assert said.stored[-1] == {"sitemap": {"kind": "changelist", "urls": 3, "left_out": 0}}
    again = worked(changes, said.data, level=2, url="http://example.com/dataset1/changelist.xml")
    assert again.urls == {}, "nothing is new"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (resync("changelist", "<url><loc>http://h.example/x</loc></url>"), "no change, or no time"),
        (resync("changelist", changed("x", "moved", "2026-01-01")), "no change, or no time"),
        (resync("changelist", changed("x", "deleted", "")), "no change, or no time"),
        (resync("resourcedump", capable("x", "resourcedump")), "'resourcedump' is not read"),
        (resync("description", capable("x", "resourcedump")), "lists no sitemap of its site"),
        (resync("capabilitylist"), "lists no sitemap of its site"),
    ],
)
def test_what_of_resourcesync_is_refused(document: str, why: str) -> None:
    with pytest.raises(FeedFault, match=why):
        worked(document)


def test_changes_at_other_hosts_are_left_out() -> None:
    other = changed("x", "deleted", "2026-01-01").replace("h.example", "victim.example")
    said = worked(resync("changelist", other, changed("y", "deleted", "2026-01-01")))
    assert said.urls == {"http://h.example/y": "deleted@1767225600"} and "1 of 2 URLs are left out" in said.logs[0]


@pytest.mark.parametrize(
    "date", ["Thu, 01 Jan 99999999999999999999 01:00:00 +0100", "Thu, 01 Jan 2026 01:00:00 +99999"]
)
def test_a_date_that_is_none_is_kept_as_it_is_written(date: str) -> None:
    """The first one is too large for C."""
    feed = f"<rss><channel><item><link>http://h.example/1</link><pubDate>{date}</pubDate></item></channel></rss>"
    (entry,) = entries(feed.encode())
    assert entry.lastmod == date


def test_what_is_not_well_formed_is_told_in_few_words() -> None:
    """libxml2 quotes what it does not like."""
    with pytest.raises(FeedFault, match="no well-formed XML: ") as caught:
        entries(b"<urlset xmlns='" + b"%" * 10_000 + b"'><url/></urlset>")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("where", ["", "x:"])
def test_a_namespace_that_is_no_unicode_makes_the_document_unreadable(where: str) -> None:
    """lxml recovers from it, and fails when it is asked for the name of an element."""
    data = f"<urlset xmlns{where and ':x'}='&#xD83D;&#xDE00;'><{where}md/><url><loc>http://h.example/1</loc></url></urlset>"
    with pytest.raises(FeedFault):
        entries(data.encode())


def test_half_a_character_in_a_capability_makes_the_document_unreadable() -> None:
    text = resync("resou&#xD800;rcelist", "<url><loc>http://h.example/1</loc></url>")
    with pytest.raises(FeedFault, match="no well-formed XML"):
        entries(text.encode())
