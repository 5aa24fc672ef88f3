"""Fast-path elements: with their spelling the feed says the same as without, whatever comes and however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lcc.errors import StreamError
from lcc.protocols.fast_elements import FastAttribute, Spelling
from lcc.protocols.xmlfeed import End, Event, FastElements, FeedLimits, Start, XmlFeed
from tests.support.segments import segmentations

WORD = "(?:[a-z]|&amp;){0,8}"
SPELLINGS = (
    Spelling("u", [FastAttribute("c", WORD), FastAttribute("m", WORD)]),
    Spelling("u", [FastAttribute("c", WORD, "'")]),
    Spelling("v", [FastAttribute("c", WORD, "'")]),
)
LIMITS = FeedLimits(document_bytes=600, token_bytes=200, depth=3, value_chars=12, text_chars=20, name_count=12)


def flat(events: list[Event]) -> list[Event]:
    """The events as they are without spellings."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, FastElements):
            for row in event.rows:
                found += [
                    Start(event.spelling.tag, event.spelling.attributes(row), event.depth),
                    End(event.spelling.tag, "", event.depth),
                ]
        else:
            found.append(event)
    return found


def read(pieces: list[bytes], spellings: tuple[Spelling, ...]) -> tuple[list[Event], str, int]:
    """The events, what is wrong, and how many runs there were."""
    feed = XmlFeed(LIMITS)
    feed.spellings = spellings
    events: list[Event] = []
    fault = ""
    try:
        for piece in pieces:
            events += feed.receive(piece)
            while feed.waiting:
                events += feed.next_document()
                feed.spellings = spellings
    except StreamError as error:
        events += feed.salvaged
        fault = str(error)
    return flat(events), fault, sum(isinstance(event, FastElements) for event in events)


def check_alike(data: bytes, pieces: list[bytes]) -> int:
    """Read the pieces with and without spellings; gives the number of runs."""
    events, fault, runs = read(pieces, SPELLINGS)
    assert (events, fault) == read(pieces, ())[:2], data
    return runs


ONE = '<u c="ab" m="x&amp;y"/>'
DOCUMENTS = {
    "many": f"<r><u c='a' m='b'/>{ONE * 20}</r>",
    "lines": "<r><u/>\n" + f"{ONE}\n" * 10 + f"{ONE} {ONE}\r\n\r{ONE}\n  \n" * 3 + "</r>",
    "a fault behind lines": "<r><u/>\n" + f"{ONE}\n" * 10 + f"\r{ONE}  <oops></r>",
    "a fault in the same line": "<r><u/>" + f"{ONE}" * 10 + "<oops></r>",
    "two spellings": "<r><u/><v c=''/>" + f"{ONE}<u c='x'/><v c=''/>" * 8 + "</r>",
    "others between": f"<r><u/>{ONE * 3}<note><u c='a'/></note>{ONE}<u c='a' m='&lt;'/>{ONE * 3}</r>",
    "deeper": f"<r><u/><s>{ONE}{ONE}</s>{ONE}</r>",
    "in a comment": f"<r><u/>{ONE}<!-- {ONE}{ONE} -->{ONE}</r>",
    "in character data": f"<r><u/>{ONE}<![CDATA[ {ONE}{ONE} ]]>{ONE}</r>",
    "in an instruction": f"<r><u/>{ONE}<?php {ONE}{ONE} ?>{ONE}</r>",
    "another namespace": f"<r xmlns='urn:x'><u/>{ONE}{ONE}</r>",
    "another namespace for a while": f"<r><u/>{ONE}<s xmlns='urn:x'><u/></s>{ONE}{ONE}</r>",
    "only with a prefix": f"<p:r xmlns:p='http://www.lococa.org/1.0' xmlns='urn:x'><p:u/>{ONE}{ONE}</p:r>",
    "text": f"<r><u/>{'t' * 15}{ONE}{'t' * 15}{ONE}{'t' * 15}</r>",
    "too much text": f"<r><u/>{'t' * 15}{'t' * 15}{ONE}</r>",
    "a document behind": f"<r><u/>{ONE * 3}</r>{ONE}<r>{ONE}</r>",
    "too long": f"<r><u/>{ONE * 30}</r>",
    "duplicates": f"<r><u/>{ONE}<u c='a' c='b'/>{ONE}</r>",
    "no UTF-8": f"<r><u/>{ONE}<u c='\udcff'/>{ONE}</r>",
    "umlauts": f"<r><u/>{ONE}<u c='ä'/>{ONE}<u c='a' m='b'/>ä{ONE}</r>",
    "a fault behind the root": f"<r><u/>{ONE * 9}</r>?>",
    "end of the root": f"<r><u/>{ONE}</s>{ONE}</r>",
}

NEVER = ("another namespace", "only with a prefix", "text", "too much text")
"""Where there is nothing that could be read at once."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_same_as_without_at_every_cut(name: str) -> None:
    data = DOCUMENTS[name].encode("utf-8", "surrogateescape")
    runs = 0
    for pieces in segmentations(data):
        runs += check_alike(data, pieces)
    assert bool(runs) == (name not in NEVER)


MARKUP = st.sampled_from(
    [
        *(ONE, ONE + ONE, ONE * 9, "<u c='a'/>", "<v c=''/>", "<u/>", "<u c='a' m='b'/>", '<u c="&lt;" m=""/>'),
        *(
            "<a>",
            "</a>",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<?x",
            "?>",
            "<u",
            ' c="x"',
            "/>",
            ">",
            "<",
            "&amp;",
            "&",
        ),
        *(" ", "\n", "\r", "x", "ä", "<p:u/>", "</r>", "<s xmlns='urn:x'>", "</s>", "<s xmlns:p='urn:p'>", "'", '"'),
    ]
)


@given(st.lists(MARKUP, max_size=30), st.lists(st.integers(1, 60), min_size=1, max_size=8))
@example([ONE] * 9 + ["<"], [7])
@example([ONE * 9, "</r>", "?>"], [1])
def test_any_markup_is_the_same_as_without(tokens: list[str], sizes: list[int]) -> None:
    data = ("<r><u/><v c=''/>" + "".join(tokens)).encode()
    pieces = []
    start = turn = 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[start : start + size])
        start, turn = start + size, turn + 1
    check_alike(data, pieces)
    check_alike(data, [data[:11], data[11:]])


def test_a_long_run_is_read_at_once() -> None:
    feed = XmlFeed()
    feed.receive(b"<r><u c='' m=''/>")
    feed.spellings = SPELLINGS
    events = feed.receive(b"\n" + f"{ONE}\n".encode() * 1000)
    assert [(type(event), len(event.rows)) for event in events if isinstance(event, FastElements)] == [
        (FastElements, 1000)
    ]
    assert len(events) == 1


def test_spellings_end_with_the_document() -> None:
    feed = XmlFeed()
    feed.receive(b"<r><u c='' m=''/>")
    feed.spellings = SPELLINGS
    feed.receive(b"</r><r><u c='' m=''/>")
    feed.next_document()
    assert not [event for event in feed.receive(ONE.encode()) if isinstance(event, FastElements)]
