"""Elements of others than the provider itself: what each source may say, and how."""

from __future__ import annotations

import pytest

from lcc.config import DEFAULT_MIMETYPES
from lcc.domain.mimetypes import ANY, MimePatterns
from lcc.domain.notices.elements import ElementChecker, ElementError
from lcc.domain.urls import Roots
from lcc.model import Source, UrlNotice

ROOT = "http://site.example/blog/"
OTHERS = [source for source in Source if source != Source.TOLD]
HINTING = [Source.FEED, Source.LINK]
NO_WORD = [*HINTING, Source.POLLED]


def check(source: Source, **attributes: str) -> UrlNotice:
    former = Roots(["http://former.example/"])
    checker = ElementChecker(Roots([ROOT]), MimePatterns(DEFAULT_MIMETYPES), "", "", 24, former, source)
    notice = checker.check({"c": f"{ROOT}a", **attributes})
    assert notice is not None
    return notice


def refusal(source: Source, **attributes: str) -> str:
    with pytest.raises(ElementError) as caught:
        check(source, **attributes)
    return caught.value.entry.name


@pytest.mark.parametrize("source", OTHERS)
def test_others_need_no_mime_type(source: Source) -> None:
    for attributes in ({}, {"m": ANY}):
        notice = check(source, **attributes)
        assert (notice.mimetype, notice.delete, notice.recheck, notice.retract) == (ANY, False, False, False)
        assert notice.ifabsent == (source in HINTING)
    assert check(source, m="Text/HTML").mimetype == "text/html"
    assert refusal(source, m="nonsense") == "bad-mimetype"


def test_the_provider_needs_one() -> None:
    assert refusal(Source.TOLD) == "mimetype-missing"
    assert refusal(Source.TOLD, m=ANY) == "bad-mimetype"


@pytest.mark.parametrize("source", Source)
def test_types_that_the_lcc_does_not_take_can_only_be_polled(source: Source) -> None:
    if source == Source.POLLED:
        assert check(source, m="application/rss+xml").mimetype == "application/rss+xml"
    else:
        assert refusal(source, m="application/rss+xml") == "mimetype-not-accepted"


@pytest.mark.parametrize("source", Source)
def test_only_polls_leave_the_roots_but_not_the_site(source: Source) -> None:
    for url in ("http://site.example/robots.txt", "https://site.example/robots.txt"):
        if source == Source.POLLED:
            assert check(source, c=url).curl == url
            assert check(source, c=url, op="retract").retract
        else:
            assert refusal(source, c=url, m="text/plain") == "outside-roots"
    for url in ("http://other.example/robots.txt", "http://site.example:81/", "http://site.example.evil.example/"):
        assert refusal(source, c=url, m="text/plain") == "outside-roots"
        assert refusal(source, f=url, m="text/plain") == "outside-roots"


@pytest.mark.parametrize("source", Source)
def test_only_the_sites_own_word_deletes(source: Source) -> None:
    for attributes in ({"op": "delete"}, {"f": ""}):
        if source in NO_WORD:
            assert refusal(source, **attributes) == "bad-op"
        else:
            notice = check(source, **attributes)
            assert notice.delete and not notice.mimetype and not notice.ifabsent


@pytest.mark.parametrize("source", OTHERS)
def test_others_take_back_and_ask_again(source: Source) -> None:
    retract = check(source, op="retract")
    assert (retract.retract, retract.delete, retract.mimetype) == (True, False, "")
    assert check(source, op="retract", m="text/html").mimetype == "text/html"
    assert check(source, op="retract", m=ANY).mimetype == ANY
    assert check(source, op="retract", c="http://former.example/a").retract
    recheck = check(source, op="recheck", m="text/html")
    assert (recheck.recheck, recheck.retract, recheck.ifabsent) == (True, False, False)
    assert check(source, op="recheck").mimetype == ANY
    assert refusal(source, op="reverse") == "bad-op"


@pytest.mark.parametrize("operation", ["retract", "recheck"])
def test_the_provider_does_not(operation: str) -> None:
    assert refusal(Source.TOLD, m="text/html", op=operation) == "bad-op"


def test_hints_may_say_ifabsent_themselves() -> None:
    for value in ("yes", "no"):
        assert check(Source.LINK, ifabsent=value).ifabsent
    assert not check(Source.POLLED, ifabsent="no").ifabsent
    assert refusal(Source.LINK, ifabsent="maybe") == "bad-flag"
