"""Pages that are made to cost much: bounded work, bounded memory, and what can be had of them."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.urls import normalise
from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.spider.extractors.extraction import Extraction
from lcc.spider.extractors.found import Document
from lcc.spider.extractors.html import HtmlExtractor
from lcc.spider.extractors.registry import extractors_by_type
from lcc.spider.worker import Worker

MEGABYTE = 1 << 20
LINK = b"<a href=/found>text</a>"
EXTRACTION = Extraction(extractors_by_type(), ExtractionLimits())
WITHOUT_TEXTS = Extraction(extractors_by_type(), ExtractionLimits(text_chars=0))


def extracted(content: bytes, mimetype: str = "text/html", charset: str = "", **limits: int) -> PageLinks:
    extraction = Extraction(extractors_by_type(), ExtractionLimits(**limits))
    return extraction.links(Document("http://h.example/", mimetype, charset, (), content))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(b"<div>" * (MEGABYTE // 5), id="a megabyte of <div>"),
        pytest.param(b"<p " + b"".join(b"a%d=1 " % n for n in range(50_000)) + b">", id="50,000 attributes"),
        pytest.param(b"<p a='" + b"x" * (8 * MEGABYTE) + b"'>", id="an attribute of 8 MB"),
        pytest.param(b"<a href='" + b"x" * (8 * MEGABYTE) + b"'>y</a>", id="a reference of 8 MB"),
        pytest.param(b"<!--" + b"-" * MEGABYTE + b"-->", id="a comment of a megabyte"),
        pytest.param(b"<script>" + b"<a href=no>" * 10_000 + b"</script>", id="a script full of links"),
        pytest.param(b"<" * MEGABYTE + b">", id="a megabyte of <"),
        pytest.param(b"&" * MEGABYTE, id="a megabyte of &"),
        pytest.param(b"<img srcset='" + b"a ( ( " * 100_000 + b"'>", id="a srcset that never ends"),
        pytest.param(b"<img srcset='" + b"," * MEGABYTE + b"'>", id="a srcset of commas"),
        pytest.param(b"<meta http-equiv=refresh content='" + b" " * MEGABYTE + b"'>", id="a refresh of spaces"),
        pytest.param(b"<table><tr><td>" * 50_000, id="tables in tables"),
        pytest.param(b"<b><i>" * 50_000, id="formats in formats"),
        pytest.param(b"\0\x01\x02\x03\x1f" * 1000, id="control characters"),
        pytest.param(b"<b" + b" " * MEGABYTE + b">", id="a tag of spaces"),
    ],
)
def test_a_link_behind_it_is_found(before: bytes) -> None:
    found = extracted(b"<html><body>" + before + LINK, document_bytes=20 * MEGABYTE)
    assert "http://h.example/found" in [link.url for link in found.links]


@pytest.mark.parametrize("page_chars", [0, 10_000], ids=["links", "links and text"])
def test_end_tags_of_nothing_behind_elements_that_never_end(page_chars: int) -> None:
    """Their time grows with the square of the page: the links before are kept, and the worker is not killed."""
    content = b"<title>T</title>" + LINK + b"<div></span>" * (2 * MEGABYTE // 12)
    limits = ExtractionLimits(page_chars=page_chars, cpu_seconds=2)
    before = time.process_time()
    found = Worker(limits).links(Document("http://h.example/", "text/html", "", (), content))
    assert time.process_time() - before < 2 + page_chars / 5000
    assert [link.url for link in found.links] == ["http://h.example/found"] and found.truncated
    assert [fault.partition(":")[0] for fault in found.faults] == ["its markup takes too long"]
    assert (found.title, found.text) == (("T", "text") if page_chars else ("", ""))


def test_of_a_million_links_the_first_are_taken() -> None:
    found = extracted(b"".join(b"<a href=/%d>x" % n for n in range(1_000_000)))
    assert len(found.links) == ExtractionLimits().links
    assert found.truncated
    assert found.links[-1].url == f"http://h.example/{len(found.links) - 1}"


def test_of_many_links_of_a_sitemap_and_a_list_the_first_are_taken() -> None:
    loc = b"".join(b"<url><loc>http://h.example/%d</loc></url>" % n for n in range(100_000))
    for content, mimetype in (
        (b"<urlset>" + loc + b"</urlset>", "text/xml"),
        (b"".join(b"/%d\r\n" % n for n in range(100_000)), "text/uri-list"),
    ):
        found = extracted(content, mimetype, links=5000)
        assert (len(found.links), found.truncated) == (5000, True)


def test_a_text_is_cut_and_so_is_a_relation() -> None:
    content = b"<a href=x rel='" + b"word " * 100_000 + b"'>" + b"<b>long </b>" * 100_000 + b"</a>" + LINK
    first, second = extracted(content).links
    assert len(first.text) <= ExtractionLimits().text_chars
    assert len(first.rel) <= 100
    assert second.text == "text"


def test_hrefs_that_no_one_can_mean() -> None:
    found = extracted(
        b"<a href='javascript:alert(1)'>"
        b"<a href='java&#10;script:alert(1)'>"
        b"<a href='&#1;javascript:x'><a href='http://[::1'><a href='http://a b/'><a href='/a&#7;b'>"
        b"<a href='http://user:secret@h.example/'><a href='data:text/html,<a href=x>'>"
        b"<a href='//'><a href='http://'><a href='http:///'><a href='" + b"\xff\xfe" * 20 + b"'>" + LINK
    )
    assert [link.url[16:] for link in found.links if "%" not in link.url] == ["/found"]
    assert found.faults
    assert not any("secret" in fault for fault in found.faults)


def test_faults_are_few_and_printable() -> None:
    bases = b"".join(b"<base href='http://\x1b[31m a %d/'>" % n for n in range(1000))
    found = extracted(bases)
    assert 0 < len(found.faults) <= 10
    assert all(fault.isprintable() and len(fault) <= 200 for fault in found.faults)


def test_deep_xml_and_a_header_of_a_megabyte() -> None:
    found = extracted(b"<rss>" + b"<x xml:base='y/'>" * 100_000 + b"<link>/found</link>", "text/xml")
    assert found.faults or found.links
    extraction = Extraction(extractors_by_type(), ExtractionLimits())
    for value in ("<a>;" * 300_000, '<a>; rel="' + "\\" * 1_000_000, "," * 1_000_000, ";" * 60_000, "<a>" * 20_000):
        found = extraction.links(Document("http://h.example/", "text/html", "", (("Link", value),), LINK))
        assert found.links[-1].url == "http://h.example/found"


PIECES = [
    *("<a href=", "<base href='", "'>", ">", "</a>", "x", "http://", "//", "\\", "?q=", "#", "é", "\0", "\x1b"),
    *("\ud800", "&#x", "\r\n", ";", "<img srcset='a 1x, ", "<meta http-equiv=refresh content='0;url=", "<!--"),
    *("<link rel=next href=", "-->", "<svg>", "<html>", "<?xml version='1.0' encoding='utf-16'?>", "<opml>", "]>"),
    *("<rss><channel>", "<item>", "<link>", "</link>", "<urlset>", "<loc>", "<!DOCTYPE x [", "<!ENTITY a 'b'>"),
    *("&a;", "xml:base='", "<![CDATA[", "]]>"),
]
CHARSETS = ["", "utf-8", "utf-16", "koi8-r", "x"]


def check_parsers(document: Document, found: PageLinks) -> None:
    """A parser that has read nothing before finds the same; one that reads no texts finds the same links."""
    fresh = dict.fromkeys(HtmlExtractor.mimetypes, HtmlExtractor())
    assert Extraction({**extractors_by_type(), **fresh}, ExtractionLimits()).links(document) == found
    bare = WITHOUT_TEXTS.links(document)
    assert {link[0::3]: link.nofollow for link in bare.links} == {link[0::3]: link.nofollow for link in found.links}
    assert bare._replace(links=()) == found._replace(links=())
    assert not any(link.text for link in bare.links)


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(CHARSETS), st.data())
def test_no_document_breaks_an_extractor(pieces: list[str], charset: str, data: st.DataObject) -> None:
    """Faults are told, and what is found is normal, whatever the document, its type, its charset and its header."""
    types = ["text/html", "text/xml", "application/atom+xml", "text/uri-list", "application/gzip", "text/plain"]
    content = "".join(pieces).encode("utf-8", "surrogatepass")
    mimetype = data.draw(st.sampled_from(types))
    headers = [("Link", "".join(data.draw(st.lists(st.sampled_from([*'<>;=," \\', "rel", "x"]), max_size=20))))]
    document = Document("http://h.example/a", mimetype, charset, headers, content)
    found = EXTRACTION.links(document)
    check_parsers(document, found)
    assert not [fault for fault in found.faults if "extractor" in fault], found.faults
    for link in found.links:
        assert normalise(link.url) == link.url
        assert "#" not in link.url
        assert len(link.text) <= ExtractionLimits().text_chars


@given(st.binary(max_size=300), st.sampled_from(["text/html", "text/xml", "text/uri-list", "application/x-gzip"]))
def test_no_bytes_break_an_extractor(content: bytes, mimetype: str) -> None:
    document = Document("http://h.example/a", mimetype, "", (), content)
    found = EXTRACTION.links(document)
    check_parsers(document, found)
    assert not [fault for fault in found.faults if "extractor" in fault], found.faults
    json.dumps(found)
