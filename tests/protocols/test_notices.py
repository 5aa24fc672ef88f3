"""Notices on the wire to the queue manager: read by runs they are what they are one by one."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from lcc.model import UrlNotice
from lcc.protocols.uns_qm import NOTICE_SPELLINGS, Set, read_notice, read_notices, write_notice
from lcc.protocols.xmlfeed import FastElements, Start, XmlFeed

ODD = ["", "a", "&", "&amp;", "'", '"', "<", ">", "\\", "ü", "😀", "\t", "\n", "\x7f", " ", "]]>", "%20", "\u2028"]
TEXTS = st.lists(st.sampled_from(ODD), max_size=5).map("".join)
URLS = st.one_of(st.just("http://site.example/page?a=b&c=d"), TEXTS.map("http://site.example/".__add__))
NUMBERS = st.one_of(st.none(), st.integers(-(2**62), 2**62), st.integers(0, 9))
SENT = st.lists(TEXTS, max_size=4).map(json.dumps)
PLAIN = st.builds(
    UrlNotice,
    curl=URLS,
    mimetype=st.sampled_from(["text/html", "image/x+y"]),
    md5=st.sampled_from(["", "0" * 32]),
    length=NUMBERS,
    mtime=NUMBERS,
    sent=SENT,
)
ANY = st.builds(
    UrlNotice,
    curl=URLS,
    furl=TEXTS,
    burl=TEXTS,
    mimetype=TEXTS,
    subtype=TEXTS,
    md5=st.just(""),
    mtime=st.none(),
    length=NUMBERS,
    hours=TEXTS,
    delete=st.booleans(),
    ifabsent=st.booleans(),
    sent=SENT,
    **dict.fromkeys(("named_only", "retract", "recheck"), st.just(False)),
)
ASKED = st.sampled_from(["named_only", "retract", "recheck"]).flatmap(
    lambda name: ANY.map(lambda notice: notice._replace(**{name: True}))
)


def received(data: bytes, size: int, *, by_runs: bool) -> tuple[list[UrlNotice], int]:
    """The notices, and how many of them came in runs."""
    feed = XmlFeed()
    feed.receive(b'<lcc:stream xmlns:lcc="http://www.lococa.org/1.0">')
    if by_runs:
        feed.spellings = NOTICE_SPELLINGS
    found: list[UrlNotice] = []
    in_runs = 0
    for start in range(0, len(data), size):
        event: object
        for event in feed.receive(data[start : start + size]):
            if isinstance(event, FastElements):
                notices = read_notices(event.spelling, event.rows)
                in_runs += len(notices)
                found += notices
            elif isinstance(event, Start):
                found.append(read_notice(event.attributes))
    return found, in_runs


@settings(max_examples=60)
@given(st.lists(st.one_of(PLAIN, PLAIN, ANY, ASKED), max_size=8), st.integers(20, 2000))
def test_whatever_is_written_is_read(notices: list[UrlNotice], size: int) -> None:
    data = "\n".join(map(write_notice, notices)).encode()
    assert received(data, size, by_runs=True)[0] == received(data, size, by_runs=False)[0]


def test_nearly_all_usual_notices_come_in_runs() -> None:
    sent = json.dumps(["c", "page?a=1&b=2"])
    notices = [
        UrlNotice(f"http://site.example/{n}?a&b", mimetype="text/html", md5="0" * 32, length=n, mtime=n, sent=sent)
        for n in range(500)
    ] + [UrlNotice(f"http://site.example/{n}", mimetype="text/html", sent=sent) for n in range(500)]
    found, in_runs = received("\n".join(map(write_notice, notices)).encode(), 65536, by_runs=True)
    assert found == notices
    assert in_runs > 980


def test_what_an_older_queue_manager_must_not_carry_out_is_named_only_to_it() -> None:
    for notice in (UrlNotice("http://a/", retract=True), UrlNotice("http://a/", mimetype="text/html", recheck=True)):
        written = write_notice(notice)
        assert 'o="n' in written
        assert received(written.encode(), 2000, by_runs=True)[0] == [notice]


def test_a_set_says_its_source_unless_it_is_told() -> None:
    told = Set("e", 1, 7, 5, False, 0, False, 9)
    assert "source" not in told.to_xml()
    assert (
        Set("e", 1, 7, 5, False, 0, False, 9, source="listed").to_xml() == told.to_xml()[:-2] + ' source="listed"/>'
    )
