"""Links of documents, type by type."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from lcc.model.spider.links import ExtractionLimits, Link, PageLinks
from lcc.spider.extractors import html
from lcc.spider.extractors.extraction import Extraction
from lcc.spider.extractors.found import Document
from lcc.spider.extractors.html import image_candidates
from lcc.spider.extractors.poppler import run_poppler
from lcc.spider.extractors.registry import extractors_by_type
from tests.support.pdf import pdf_with_links

URL = "http://h.example/a/b.html"


def extracted(
    content: bytes | str,
    mimetype: str = "text/html",
    charset: str = "",
    headers: Sequence[tuple[str, str]] = (),
    whole: bool = True,
    **limits: Any,
) -> PageLinks:
    data = content.encode() if isinstance(content, str) else content
    extraction = Extraction(extractors_by_type(), ExtractionLimits(**limits))
    return extraction.links(Document(URL, mimetype, charset, headers, data, whole))


def urls(found: PageLinks) -> list[str]:
    return [link.url.removeprefix("http://h.example") for link in found.links]


# HTML.


def test_each_element_that_names_a_document() -> None:
    found = extracted("""<!DOCTYPE html><html><head>
        <link rel="Stylesheet" href=/s.css title=Style><link rel=preconnect href=//cdn.example>
        <meta http-equiv=Refresh content="5; URL='/refreshed'">
        </head><body>
        <a href=a1 rel="NoFollow  ugc">one <b>bold</b>
          <img src=i.png alt="a picture"></a>
        <A HREF="a2" title="said by its title"></A>
        <map><area href=/area alt="an area"></map>
        <iframe src=/iframe title=inner></iframe>
        <picture><source srcset="big.webp 2x, small.webp"><img srcset="one.png 1x,two.png 2x" alt=set></picture>
        <a name=x>no link</a><a href="#part">here</a><a href="javascript:go()">run</a><a href=''>self</a>
        </body></html>""")
    host = "http://h.example"
    assert found.links == (
        Link(f"{host}/s.css", "Style", "stylesheet", "link"),
        Link(f"{host}/refreshed", "", "", "meta"),
        Link(f"{host}/a/i.png", "a picture", "", "img"),
        Link(f"{host}/a/a1", "one bold a picture", "nofollow ugc", "a"),
        Link(f"{host}/a/a2", "said by its title", "", "a"),
        Link(f"{host}/area", "an area", "", "area"),
        Link(f"{host}/iframe", "inner", "", "iframe"),
        Link(f"{host}/a/big.webp", "", "", "source"),
        Link(f"{host}/a/small.webp", "", "", "source"),
        Link(f"{host}/a/one.png", "set", "", "img"),
        Link(f"{host}/a/two.png", "set", "", "img"),
    )
    assert (found.base, found.nofollow, found.noindex, found.truncated, found.faults) == (
        URL,
        False,
        False,
        False,
        (),
    )


def test_texts_are_left_out_where_nobody_wants_them() -> None:
    page = "<a href=one>one <img src=i alt=picture></a><a href=two title=two>2</a><img srcset='s 1x' alt=set>"
    assert [link.text for link in extracted(page).links] == ["picture", "one picture", "2", "set"]
    without = extracted(page, text_chars=0)
    assert sorted(urls(without)) == sorted(urls(extracted(page)))
    assert not any(link.text for link in without.links)


def test_a_document_is_read_as_if_there_were_none_before_it() -> None:
    extractor = html.HtmlExtractor()
    limits = ExtractionLimits(links=2)

    def read(content: bytes) -> list[tuple[str, str]]:
        extraction = Extraction({"text/html": extractor}, limits)
        found = extraction.links(Document(URL, "text/html", "", (), content))
        return [(link.url.removeprefix("http://h.example"), link.text) for link in found.links]

    good = b"<base href=/r/><a href=x>x</a>"
    for before in (
        b"",
        b"  ",
        b"\0",
        b"<a href=y>not ended",
        b"<a href=1><a href=2><a href=3>",
        b"<!--",
        b"<a href='",
    ):
        read(before)
        assert read(good) == [("/r/x", "x")], before
        assert read(b"<p>text</p>") == []


def test_frames() -> None:
    found = extracted("<html><frameset><frame src=left title=menu><frame src=right></frameset></html>")
    assert found.links == (
        Link("http://h.example/a/left", "menu", "", "frame"),
        Link("http://h.example/a/right", "", "", "frame"),
    )


def test_the_base_is_relative_to_the_url_that_answered_and_holds_for_links_before_it() -> None:
    found = extracted("<a href=x>x</a><base href=/c/d><base href=/second/><a href=y>y</a><a href='#z'>z</a>")
    assert urls(found) == ["/c/x", "/c/y"]
    assert found.base == "http://h.example/c/d"
    elsewhere = extracted("<base href='https://other.example/r/'><a href=x>x</a>")
    assert elsewhere.links[0].url == "https://other.example/r/x"
    assert urls(extracted("<base href='javascript:x'><a href=x>x</a>")) == ["/a/x"]
    unreadable = extracted("<base href='http://a b/'><a href=x>x</a>")
    assert urls(unreadable) == ["/a/x"]
    assert "<base>" in unreadable.faults[0]


def test_a_link_that_is_there_twice_may_be_followed_if_one_of_them_may() -> None:
    found = extracted("<a href=x rel=nofollow>no</a><a href=x></a><a href=x>text</a><a href=x rel=nofollow>again</a>")
    assert found.links == (Link("http://h.example/a/x", "text"),)
    assert not found.links[0].nofollow


@pytest.mark.parametrize(
    ("content", "nofollow", "noindex"),
    [
        ("NoFollow", True, False),
        ("none", True, True),
        ("noindex, follow", False, True),
        ("index,follow,nofollowing", False, False),
    ],
)
def test_robots_of_meta_and_header(content: str, nofollow: bool, noindex: bool) -> None:
    said = extracted(f"<meta name=ROBOTS content='{content}'><a href=x>")
    assert (said.nofollow, said.noindex) == (nofollow, noindex)
    said = extracted("x", "text/plain", headers=[("x-robots-tag", content)])
    assert (said.nofollow, said.noindex) == (nofollow, noindex)


def test_a_header_may_speak_to_one_robot() -> None:
    for value, nofollow in {
        "otherbot: nofollow": False,
        "LCC: nofollow": True,
        "otherbot: noindex, nofollow": False,
        "otherbot: noindex, lcc: nofollow": True,
        "unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow": True,
    }.items():
        assert extracted("", headers=[("X-Robots-Tag", value)]).nofollow is nofollow, value


def test_candidates_of_srcset() -> None:
    assert list(image_candidates(" a 1x, b 2x,c,\td 100w , data:image/png;base64,AA== 3x,, e")) == [
        *("a", "b", "c", "d", "data:image/png;base64,AA==", "e")
    ]


@pytest.mark.parametrize(
    ("content", "charset", "url", "text"),
    [
        ("é?é", "", "/a/%C3%A9?%C3%A9", "é"),
        ("é?é".encode("latin-1"), "", "/a/%C3%A9?%E9", "é"),
        ("é?é".encode("latin-1"), "utf-8", "/a/%EF%BF%BD?%EF%BF%BD", "�"),  # it lies
        ("é?é", "iso-8859-5", "/a/%D0%A3%D0%89?%C3%A9", "\u0423\u0409"),  # it lies
        ("я?я".encode("koi8-r"), "KOI8-R", "/a/%D1%8F?%D1", "я"),
        ("é?é", "utf-16", "/a/%C3%A9?%C3%A9", "é"),  # it is none
        ("é?é".encode("utf-16-le"), "utf-16", "/a/%C3%A9?%C3%A9", "é"),
        ("é?é".encode("utf-16-be"), "", "/a/%C3%A9?%C3%A9", "é"),
        ("é?é", "no-such-charset", "/a/%C3%A9?%C3%A9", "é"),
        ("é?é", "utf-7", "/a/%C3%A9?%C3%A9", "é"),
        ("é?é", "base64", "/a/%C3%A9?%C3%A9", "é"),
    ],
)
def test_charsets_that_are_told_and_those_that_lie(content: bytes | str, charset: str, url: str, text: str) -> None:
    data = content.encode() if isinstance(content, str) else content
    if b"\0" in data:
        wide = "utf-16-le" if data[1] == 0 else "utf-16-be"
        page = "<a href='".encode(wide) + data + "'>é</a>".encode(wide)
    else:
        page = b"<a href='" + data + b"'>" + data.partition(b"?")[0] + b"</a>"
    found = extracted(page, charset=charset)
    assert urls(found) == [url]
    assert found.links[0].text == text


def test_a_mark_and_a_meta_say_the_charset() -> None:
    assert extracted("\ufeff<a href=x>é</a>", charset="windows-1251").links[0].text == "é"
    assert extracted("<a href=x>é</a>".encode("utf-16"), charset="utf-8").links[0].text == "é"
    assert extracted(b"<meta charset=koi8-r><a href=x>\xd1</a>").links[0].text == "я"
    assert extracted(b"<meta charset=utf-16><a href=x>\xc3\xa9</a>").links[0].text == "é"


def test_texts_and_references_come_whole_across_the_pieces_that_are_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<p>é</p><a href='/ä/中.html?ü' rel=nofollow>日本 text</a>" * 3 + "<a href=/end>€nd</a>"
    whole = extracted(page)
    assert len(whole.links) == 2
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(html, "PIECE_BYTES", size)
        assert extracted(page) == whole


# Others.


def test_rss() -> None:
    found = extracted(
        """<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
        <title>Feed</title><link>http://h.example/</link><atom:link rel="self" href="http://h.example/feed"/>
        <item><link>/one</link><title>One &amp; all</title><enclosure url="/one.mp3" type="audio/mpeg"/>
          <guid>12345</guid></item>
        <item><guid isPermaLink="true">http://h.example/two</guid></item>
        <item><guid isPermaLink="false">http://h.example/none</guid></item>
        </channel></rss>""",
        "application/rss+xml",
    )
    host = "http://h.example"
    assert found.links == (
        Link(f"{host}/", "Feed", "", "feed"),
        Link(f"{host}/feed", "Feed", "self", "feed"),
        Link(f"{host}/one", "One & all", "", "feed"),
        Link(f"{host}/one.mp3", "One & all", "enclosure", "feed"),
        Link(f"{host}/two", "", "", "feed"),
    )


def test_atom_with_bases_of_its_own() -> None:
    found = extracted(
        """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/top/"><link href="x" rel="self"/>
        <entry xml:base="in/"><title>T</title><link href="y"/><content src="z"/></entry>
        <entry><link href="w"/></entry></feed>""",
        "application/atom+xml",
    )
    assert urls(found) == ["/top/x", "/top/in/y", "/top/in/z", "/top/w"]


def test_sitemaps_their_index_and_those_in_gzip() -> None:
    sitemap = """<?xml version="1.0" encoding="UTF-8"?>
        <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">
        <url><loc> http://h.example/1 </loc><xhtml:link rel="alternate" hreflang="de" href="http://h.example/de"/></url>
        <url><loc>http://h.example/2</loc><lastmod>2020-01-01</lastmod></url></urlset>"""
    data = sitemap.encode()
    for content, mimetype in ((data, "text/xml"), (gzip.compress(data), "application/x-gzip")):
        found = extracted(content, mimetype)
        assert [(link.url[16:], link.rel, link.element) for link in found.links] == [
            ("/1", "", "sitemap"),
            ("/de", "alternate", "sitemap"),
            ("/2", "", "sitemap"),
        ]
    index = "<sitemapindex><sitemap><loc>/s1.xml.gz</loc></sitemap></sitemapindex>"
    assert extracted(index, "application/xml").links == (
        Link("http://h.example/s1.xml.gz", "", "sitemap", "sitemap"),
    )
    assert extracted(gzip.compress(b"no markup"), "application/gzip").links == ()
    assert "gzip" in extracted(b"\x1f\x8bbroken", "application/gzip").faults[0]


def test_opml_and_xhtml_and_xml_that_is_neither() -> None:
    opml = "<opml><body><outline text='T' xmlUrl='/feed' htmlUrl='/site'/></body></opml>"
    found = extracted(opml, "text/x-opml")
    assert [(link.url[16:], link.text) for link in found.links] == [("/feed", "T"), ("/site", "T")]
    xhtml = "<html xmlns='http://www.w3.org/1999/xhtml'><body><a href='x'>y</a></body></html>"
    assert urls(extracted(xhtml, "application/xml")) == urls(extracted(xhtml, "application/xhtml+xml")) == ["/a/x"]
    other = extracted("<svg><a href='x'/></svg>", "application/xml")
    assert (other.links, other.faults) == ((), ("XML with the root <svg>, which is no feed and no sitemap",))
    broken = extracted("<rss><channel><link>/x</link><item></channel>", "text/xml")
    assert urls(broken) == ["/x"]


def test_documents_made_to_explode_are_refused_and_files_are_not_read() -> None:
    bomb = (
        "<!DOCTYPE r [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;&a;'>]><rss><channel><link>/&b;</link></channel></rss>"
    )
    found = extracted(bomb, "text/xml")
    assert found.links == ()
    assert "bomb" in found.faults[0]
    file = "<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/hostname'>]><rss><channel><link>&x;</link></channel></rss>"
    assert extracted(file, "text/xml").links == ()
    harmless = "<!DOCTYPE r [<!ENTITY x 'y'>]><rss><channel><item><link>/&x;</link></item></channel></rss>"
    assert urls(extracted(harmless, "text/xml")) == ["/y"]


def test_lists_of_uris() -> None:
    found = extracted("# of a folder\r\nftp://h.example/pub/\r\nsub/\r\n\r\nfile%20x\r\n", "text/uri-list")
    assert [link.url for link in found.links] == [
        *("ftp://h.example/pub/", "http://h.example/a/sub/", "http://h.example/a/file%20x")
    ]
    assert urls(extracted("x\r\ny", "text/uri-list", whole=False)) == ["/a/x"]


def test_pdf_by_pdfinfo() -> None:
    found = extracted(pdf_with_links("http://h.example/one", "http://h.example/two?a=b"), "application/pdf")
    assert found.links == (
        Link("http://h.example/one", "", "", "pdf"),
        Link("http://h.example/two?a=b", "", "", "pdf"),
    )
    assert found.faults == ()


def test_pdf_that_is_none_or_cut_or_without_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pdfinfo: " in extracted(b"%PDF-1.4\nnothing", "application/pdf").faults[0]
    assert "cut" in extracted(pdf_with_links("http://h.example/"), "application/pdf", whole=False).faults[0]
    monkeypatch.setenv("PATH", "/nowhere")
    assert "poppler-utils" in extracted(pdf_with_links("http://h.example/"), "application/pdf").faults[0]


def test_links_of_the_header_are_relative_to_the_url_that_answered() -> None:
    value = (
        '</n>; rel="next"; title="a \\"b\\"; c", <x,y>;rel=prev , <http://o.example/>, <//c.example>; rel=preconnect'
    )
    found = extracted("<base href=/else/><a href=x>", headers=[("LINK", value), ("link", "junk, <z>")])
    assert found.links == (
        Link("http://h.example/n", 'a "b"; c', "next", "header"),
        Link("http://h.example/a/x,y", "", "prev", "header"),
        Link("http://o.example/", "", "", "header"),
        Link("http://h.example/else/x"),
    )


def test_a_type_that_nobody_reads_has_the_links_of_its_header() -> None:
    found = extracted(b"\x89PNG", "image/png", headers=[("Link", "<x>; rel=license")])
    assert urls(found) == ["/a/x"]


def test_a_program_has_only_so_much_memory() -> None:
    hungry = ["-c", "b = bytearray(600 << 20); print('enough')"]
    assert run_poppler(sys.executable, hungry, b"", 60.0, 1000).data == b"enough\n"
    found = run_poppler(sys.executable, hungry, b"", 60.0, 1000, memory_bytes=300 << 20)
    assert found.data == b"" and "MemoryError" in found.fault


@pytest.mark.parametrize("reference", ["&#xD800;", "&#xDE00;&#xD83D;", "&#1114112;"])
def test_references_to_what_is_no_character_cost_no_links(reference: str) -> None:
    items = f"<item><title>{reference}</title><link>/1</link></item><item><link>/2</link></item>"
    outlines = f'<outline xmlUrl="/1"/><outline title="{reference}" xmlUrl="/2"/>'
    for text in (f"<rss><channel>{items}</channel></rss>", f'<opml version="{reference}">{outlines}</opml>'):
        found = extracted(text, "application/xml")
        assert urls(found) == ["/1", "/2"] and not found.faults
