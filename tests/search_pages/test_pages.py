"""What people and programs see of a search."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import feedparser
import pytest
import pytest_twisted
from lxml import etree

from lcc.domain.keys import url_key
from lcc.domain.notices.elements import NOT_BROWSABLE
from lcc.model.headers import stored_headers
from lcc.roles.front import printable
from lcc.roles.search.pages.base import followed
from lcc.roles.search.pages.cached import kind_shown, unconnected
from lcc.roles.search.pages.results import address, narrowed, narrower, several
from lcc.search.query import parse_query
from lcc.search.values import Facet, Order
from tests.support.pdf import pdf_with_text

from .kit import HOSTILE, A, B, Searching, article

ATOM = "{http://www.w3.org/2005/Atom}"
OPENSEARCH = "{http://a9.com/-/spec/opensearch/1.1/}"


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fill(search: Searching) -> None:
    search.put(f"{A}apples", article("Apples and pears", "All about an orchard with apple trees. " * 3), mtime=3000)
    search.put(f"{B}orchard", article("The orchard", "Cherries only."), pid=2, mtime=2000)
    search.put(f"{A}notes", "orchard notes, plain", mimetype="text/plain", mtime=1000)
    search.put(f"{A}hostile", article(escaped(HOSTILE), f"An orchard {escaped(HOSTILE)} it is."), mtime=500)


@pytest_twisted.ensureDeferred
async def test_a_page_from_the_far_future_takes_no_answer_away(open_search: Callable[..., Searching]) -> None:
    search = open_search()
    search.put(f"{A}far", article("Far", "An orchard."), mtime=999_999_999_999)
    search.put(f"{A}near", article("Near", "An orchard."), mtime=1000)
    await search.indexed()
    for query in ("", "&format=atom", "&format=json", "&order=date"):
        assert (await search.browser().get(f"/search?q=orchard{query}")).status == 200, query
    (hit,) = (hit for hit in search.engine.index._index.search(parse_query("far", "", 0), None, 9).hits)
    assert hit.date <= search.engine.now() + 86400


@pytest_twisted.ensureDeferred
async def test_results_as_a_page(open_search: Callable[..., Searching]) -> None:
    search = open_search()
    fill(search)
    await search.indexed()
    browser = search.browser()
    start = await browser.get("/")
    assert start.status == 200 and start.page.forms[0].action == "/search"
    assert (await browser.get("/search?q=+")).headers["location"] == "/"

    reply = await browser.get("/search?q=orchard")
    page = reply.page
    assert reply.status == 200 and " ".join(page.xpath("//h1")[0].text_content().split()) == "4 pages with orchard"
    assert set(page.xpath("//li/h2/a/@href")) == {f"{A}apples", f"{B}orchard", f"{A}notes", f"{A}hostile"}
    assert {text.lower() for text in page.xpath("//mark/text()")} == {"orchard"}
    # What a stranger wrote is text.
    assert HOSTILE in page.text_content() and "<b onclick" not in reply.body.decode()
    assert not page.xpath("//script | //b | //*[@onclick]")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "script-src" not in reply.headers["content-security-policy"]

    # Narrower, by sites and types; and in another order.
    narrower = {text: (await browser.get(href)).page for text, href in links(page, "//aside//a")}
    assert narrower.keys() == {"www.example.org", "other.example.net", "HTML", "Text"}
    assert narrower["other.example.net"].xpath("//li/h2/a/@href") == [f"{B}orchard"]
    assert narrower["Text"].xpath("//li/h2/a/@href") == [f"{A}notes"]
    by_date = (await browser.get(dict(links(page, "//nav[@aria-label='Order']/a"))["Newest first"])).page
    assert [each.rpartition("/")[2] for each in by_date.xpath("//li/h2/a/@href")] == [
        *("apples", "orchard", "notes", "hostile")
    ]
    assert by_date.xpath("//input[@name='order']/@value") == ["date"]

    # Page by page.
    first = (await browser.get("/search?q=orchard&limit=3")).page
    (onwards,) = first.xpath("//a[@rel='next']/@href")
    assert len(first.xpath("//ol/li")) == 3
    second = (await browser.get(f"{onwards}&limit=3")).page
    assert len(second.xpath("//ol/li")) == 1 and not second.xpath("//a[@rel='next']")
    assert second.xpath("//nav[@class='pages']/a/text()") == ["First page"]

    nothing = (await browser.get("/search?q=orchrad")).page
    assert "No page" in nothing.xpath("//h1")[0].text_content()
    assert nothing.xpath("//p[@class='suggestion']/a/text()") == ["orchard"]
    assert len((await browser.get(nothing.xpath("//p[@class='suggestion']/a/@href")[0])).page.xpath("//ol/li")) == 4


def links(page: Any, xpath: str) -> list[tuple[str, str]]:
    return [(each.text_content(), each.get("href")) for each in page.xpath(xpath)]


@pytest_twisted.ensureDeferred
async def test_bad_queries_are_told_what_is_wrong(open_search: Callable[..., Searching]) -> None:
    search = open_search()
    await search.indexed()
    browser = search.browser()
    for query, text in (
        ("since:yesterdayish", "since"),
        ("-only", "leaves words out"),
        ("*", "no word"),
        ("x" * 2000, "characters"),
        ("site:%3Cb%3E", "site"),
    ):
        reply = await browser.get(f"/search?q={query}")
        assert reply.status == 400 and text in reply.page.xpath("//*[@role='alert']")[0].text_content(), query
        assert not reply.page.xpath("//b")
        told = await browser.get(f"/search?q={query}&format=json")
        assert told.status == 400 and text in told.json()["error"]
    for path in ("q=a&format=pdf", "q=a&limit=0", "q=a&limit=x", "q=a&order=size", "q=a&after=x", "q=%ff", "q=a&q=b"):
        assert (await browser.get(f"/search?{path}")).status == 400, path
    assert (await browser.get("/search?q=%22never+closed")).status == 200
    assert (await browser.get(f"/search?q={'x' * 100_000}")).status == 431
    assert (await browser.get("/search", method="POST")).status == 405
    assert (await browser.get("/elsewhere")).status == 404
    assert (await search.browser(host="evil.example").get("/search?q=a")).status == 421


@pytest_twisted.ensureDeferred
async def test_results_for_programs(open_search: Callable[..., Searching]) -> None:
    search = open_search('open = true\ntitle = "Fruit & more"\nurl = "https://search.example.org/"')
    fill(search)
    await search.indexed()
    browser = search.browser()
    told = (await browser.get("/search?q=orchard+-pears&format=json&limit=2&order=date")).json()
    assert {"total", "hits", "sites", "types", "suggestion", "next"} <= told.keys()
    assert told["total"] == 3 and [each["name"] for each in told["sites"]] == ["www.example.org", "other.example.net"]
    first, second = told["hits"]
    assert (first["url"], first["title"], first["type"], first["date"]) == (
        f"{B}orchard",
        "The orchard",
        "html",
        2000,
    )
    assert {"snippet", "marks", "score", "key", "site", "language", "provider"} <= first.keys()
    begin, end = second["marks"][0]
    assert second["snippet"][begin:end] == "orchard"
    more = (await browser.get(f"/search?q=orchard+-pears&format=json&limit=2&order=date&after={told['next']}")).json()
    assert [hit["title"] for hit in more["hits"]] == [HOSTILE] and more["next"] is None

    reply = await browser.get("/search?q=orchard&format=atom")
    assert reply.headers["content-type"] == "application/atom+xml"
    feed = etree.fromstring(reply.body)
    read = feedparser.parse(reply.body)
    assert (read.version, read.bozo, len(read.entries)) == ("atom10", False, 4)
    assert all(each.id and each.title and each.updated_parsed and each.link for each in read.entries)
    assert len({each.id for each in read.entries}) == 4 and read.feed.author == "Fruit & more"
    assert feed.findtext(f"{ATOM}title") == "orchard · Fruit & more"
    assert feed.findtext(f"{OPENSEARCH}totalResults") == "4"
    entries = feed.findall(f"{ATOM}entry")
    assert [each.findtext(f"{ATOM}title") for each in entries][::3] == ["Apples and pears", HOSTILE], "newest first"
    assert entries[1].find(f"{ATOM}link").get("href") == f"{B}orchard"
    assert feed.findtext(f"{ATOM}updated") == "1970-01-01T00:50:00Z"
    (own,) = feed.xpath("//*[@rel='self']/@href")
    assert own.startswith("https://search.example.org/search?q=orchard")

    reply = await browser.get("/opensearch.xml")
    assert reply.headers["content-type"] == "application/opensearchdescription+xml"
    described = etree.fromstring(reply.body)
    check_description(described)
    assert described.findtext(f"{OPENSEARCH}ShortName") == "Fruit & more"
    templates = {each.get("type"): each.get("template") for each in described.findall(f"{OPENSEARCH}Url")}
    assert templates["text/html"] == "https://search.example.org/search?q={searchTerms}"
    own = templates.pop("application/opensearchdescription+xml")
    assert own == "https://search.example.org/opensearch.xml"
    assert templates.keys() == {"text/html", "application/atom+xml", "application/json"}
    for kind, template in templates.items():
        path = template.removeprefix("https://search.example.org").replace("{searchTerms}", "orchard")
        reply = await browser.get(path.replace("{count?}", "2"))
        assert reply.status == 200 and reply.headers["content-type"].partition(";")[0] == kind


def check_description(found: etree._Element) -> None:
    """What OpenSearch 1.1 (draft 6) demands of a description document."""
    texts = {"ShortName": 16, "LongName": 48, "Description": 1024, "InputEncoding": 20, "OutputEncoding": 20}
    assert found.tag == f"{OPENSEARCH}OpenSearchDescription" and not found.attrib
    names = [each.tag.removeprefix(OPENSEARCH) for each in found]
    assert {"ShortName", "Description", "Url"} <= set(names) <= {*texts, "Url", "Image"}
    for name, most in texts.items():
        (text,) = found.findall(f"{OPENSEARCH}{name}")
        assert not len(text) and text.text and len(text.text) <= most
    for url in found.findall(f"{OPENSEARCH}Url"):
        assert {"template", "type"} <= set(url.keys()) <= {"template", "type", "rel"}
        assert re.sub(r"\{(searchTerms|count\?)\}", "", url.get("template")).isascii()
        assert set(re.findall(r"\{(.*?)\}", url.get("template"))) <= {"searchTerms", "count?"}


@pytest_twisted.ensureDeferred
async def test_cached_copies(open_search: Callable[..., Searching]) -> None:
    search = open_search()
    page = article("Copy", "original bytes", "<script>x()</script>")
    search.put(f"{A}copy", page, mtime=0, charset="utf-8")
    search.put(f"{A}data", pdf_with_text("<b>Printed words", title="T"), mimetype="application/pdf")
    search.put(f"{A}svg", "<svg xmlns='http://www.w3.org/2000/svg'/>", mimetype="image/svg+xml")
    await search.indexed()
    browser = search.browser()
    types = {"copy": "text/html", "data": "application/pdf", "svg": "image/svg+xml"}
    keys = {f"{A}{name}": url_key(1, f"{A}{name}", mimetype).hex() for name, mimetype in types.items()}
    reply = await browser.get(f"/cached/{keys[f'{A}copy']}")
    (frame,) = reply.page.xpath("//iframe")
    assert frame.get("sandbox") == "" and f"{A}copy" in reply.body.decode()
    assert "frame-src 'self'" in reply.headers["content-security-policy"]
    copy = await browser.get(frame.get("src"))
    assert copy.body == page.encode() and copy.headers["content-type"] == "text/html; charset=utf-8"
    policy = copy.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'; ") and "allow" not in policy
    assert copy.headers["x-content-type-options"] == "nosniff"
    assert (await browser.get(frame.get("src"), method="HEAD")).body == b""

    # What is not shown is given as a file; what could run becomes text.
    reply = await browser.get(f"/cached/{keys[f'{A}data']}")
    assert not reply.page.xpath("//iframe") and reply.page.xpath("//a[@download]")
    # Its text is shown as it is indexed, of this content only.
    (text,) = reply.page.xpath("//div[@role='region']")
    assert text.text_content() == "<b>Printed words" and not len(text)
    search.engine.pause()
    search.put(f"{A}data", pdf_with_text("Other words"), mimetype="application/pdf")
    reply = await browser.get(f"/cached/{keys[f'{A}data']}")
    assert reply.status == 200 and b"words" not in reply.body
    copy = await browser.get(f"/copy/{keys[f'{A}data']}")
    assert copy.headers["content-type"] == "application/octet-stream"
    assert copy.headers["content-disposition"].startswith("attachment")
    copy = await browser.get(f"/copy/{keys[f'{A}svg']}")
    assert copy.headers["content-type"] == "text/plain"

    search.cache.delete(1, f"{A}copy")
    for path in (f"/cached/{keys[f'{A}copy']}", f"/copy/{keys[f'{A}copy']}", "/copy/x", f"/copy/{'0' * 40}", "/copy"):
        assert (await browser.get(path)).status == 404, path


@pytest_twisted.ensureDeferred
async def test_who_narrows_a_search_finds_as_many_as_the_page_says(open_search: Callable[..., Searching]) -> None:
    search = open_search()
    roots = ("http://example.org/", "http://www.example.org/", "https://example.org:80/", "http://[::1]:8080/")
    for count, root in enumerate((*roots, "http://xn--mller-kva.example/"), 1):
        for number in range(count):
            search.put(f"{root}{number}", article("Page", "orchard"))
    await search.indexed()
    browser = search.browser()
    page = (await browser.get("/search?q=orchard")).page
    said = {each.xpath("a/@href")[0]: int(each.xpath("span")[0].text_content()) for each in page.xpath("//aside//li")}
    assert sorted(said.values()) == [1, 2, 3, 4, 5]
    for href, count in said.items():
        assert (await browser.get(f"{href}&format=json")).json()["total"] == count, href


@pytest_twisted.ensureDeferred
async def test_pages_that_want_no_copy_to_be_shown(open_search: Callable[..., Searching]) -> None:
    search = open_search()
    asking = '<meta name="robots" content="{}">'
    pages = {word: article(word, "orchard", asking.format(word)) for word in ("noarchive", "noindex", "none", "all")}
    for name, page in pages.items():
        search.put(f"{A}{name}", page)
    header = stored_headers([("X-Robots-Tag", "noarchive")])
    search.put(f"{A}header", article("header", "orchard"), headers=header)
    search.put(f"{A}pdf", pdf_with_text("orchard"), mimetype="application/pdf", headers=header)
    search.put(f"{A}hidden", article("hidden", "orchard", asking.format("noarchive")), burl=NOT_BROWSABLE)
    await search.indexed()
    browser = search.browser()
    found = await browser.get("/search?q=orchard&format=json")
    assert {hit["url"]: hit["has_copy"] for hit in json.loads(found.body)["hits"]} == {
        f"{A}all": True,
        **{f"{A}{name}": False for name in ("header", "hidden", "noarchive", "pdf")},
    }
    # No copy is offered that is not shown.
    with_copy = url_key(1, f"{A}all", "text/html").hex().encode()
    for form in ("html", "atom"):
        told = await browser.get(f"/search?q=orchard&format={form}")
        assert set(re.findall(rb"/cached/([0-9a-f]+)", told.body)) == {with_copy}
        assert f'href="{A}noarchive"'.encode() in told.body and f'"{A}hidden"'.encode() not in told.body
    assert all(entry.link for entry in feedparser.parse(told.body).entries)
    shown = {}
    for name in (*pages, "header", "pdf"):
        key = url_key(1, f"{A}{name}", "application/pdf" if name == "pdf" else "text/html").hex()
        replies = [await browser.get(f"/{kind}/{key}") for kind in ("cached", "copy")]
        shown[name] = [reply.status for reply in replies]
        assert name == "all" or (b"asks that no copy" in replies[1].body and b"orchard" not in replies[1].body)
    assert shown.pop("all") == [200, 200] and shown.pop("header") == shown.pop("pdf") == [404, 404]
    # Of these only the page itself says so: its frame is empty.
    assert set(map(tuple, shown.values())) == {(200, 404)}


def test_rules() -> None:
    assert followed("https://a/") and not followed("javascript:alert(1)") and not followed("data:text/html,x")
    assert narrowed("a b", "host", Facet("h", 1)) == "a b host:h"
    assert narrowed('"a b', "type", Facet("pdf", 1)) == '"a b" type:pdf'
    assert several((Facet("a", 1),)) == () and len(several((Facet("a", 1), Facet("b", 1)))) == 2
    assert address("a&b=c", Order.DATE) == "/search?q=a%26b%3Dc&order=date"
    assert address("\ud800", Order.RANK) == "/search?q=%3F"


@pytest.mark.parametrize(
    ("mimetype", "shown"),
    [
        ("text/html", "text/html"),
        ("application/xhtml+xml", "text/html"),
        ("text/csv", "text/plain"),
        ("image/svg+xml", "text/plain"),
        ("application/pdf", ""),
        ("", ""),
    ],
)
def test_types_of_copies(mimetype: str, shown: str) -> None:
    assert kind_shown(mimetype) == shown


@pytest.mark.parametrize("charset", ["utf-8", "utf-16-le", "utf-16-be", "iso-2022-jp", "windows-1252", ""])
def test_copies_have_no_elements_that_connect(charset: str) -> None:
    page = "<p>Linked <a href=/link>link</a><LinK rel=preconnect><b>&lt;link<li>nk<iFrame\n/><link"
    wanted = b"<p>Linked <a href=/link>link</a><Linx rel=preconnect><b>&lt;link<li>nk<iFramx\n/><linx"
    assert unconnected(page.encode(charset or "utf-8"), charset) == wanted


def test_copies_are_looked_at_as_browsers_read_them() -> None:
    """Also where bytes that mean nothing stand between letters, or the page says another encoding than its site."""
    hidden = b"<li\x1b(Bnk rel=preconnect>"
    assert unconnected(hidden, "iso-2022-jp") == b"<linx rel=preconnect>"
    assert unconnected(b"<li\0nk>", "") == b"<linx>"
    assert b"<link" not in unconnected(b"<meta charset=iso-2022-jp>" + hidden, "")
    assert unconnected("<p>日本".encode("iso-2022-jp"), "iso-2022-jp") == "<p>日本".encode()


def test_texts_are_shown_as_they_are_read() -> None:
    good = "東京\u3000大阪 \u06cc\u200c\u062e 👩\u200d💻 10\u00a0km \u200f\u05e9\n"
    assert printable(good) == good
    assert printable("Zu\u00adsammen") == "Zusammen"
    for each in "\0\x1b\x85\u202e\u2066\ud800\u0378\u2028\ue000":
        assert printable(f"a{each}b") == "a\ufffdb", ascii(each)


def test_no_link_leads_to_a_query_that_is_refused() -> None:
    facets = (Facet("www.example.org", 2), Facet("x.org", 1))
    assert len(narrower("words " * 31, "host", facets, Order.RANK, 0)) == 2
    assert narrower("words " * 32, "host", facets, Order.RANK, 0) == []
    (only,) = narrower("x" * 985, "host", facets, Order.RANK, 0)
    assert only[0].name == "x.org"
