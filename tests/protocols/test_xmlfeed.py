"""The feed: the same events however the bytes are cut, and every trap of the design."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import StreamError
from lcc.protocols.xmlfeed import NAMESPACE, End, FeedLimits, Start, XmlFeed
from lcc.protocols.xmltext import attributes as write_attributes
from lcc.protocols.xmltext import escape
from tests.support.expat import counted_work
from tests.support.segments import read, read_patiently, segmentations

INIT = f'<l:init xmlns:l="{NAMESPACE}"><provider id="7" passwd="x&gt;&#10;y"/></l:init>'

SEQUENCES = {
    "the seed": INIT + '<l:set set="full"><url c="a"/><url c="b"/></l:set>',
    "declarations": f'<?xml version="1.0"?>{INIT}<?xml version="1.0" encoding="utf-8"?>\n<l:set/>',
    "white space and comments": f" \r\n\t<!-- a > b -->\n{INIT}\n<!-- c > > d -->\n <l:set/> \n",
    "comment, declaration": f"<!-- > --> <?xml version='1.0'?>{INIT}<!-- --><?xml version='1.0'?><l:set/>",
    "an instruction": f"<?php echo 1 > 2 ?>{INIT}<?php 3 ?><l:set/>",
    "default namespace": f'<init xmlns="{NAMESPACE}"><provider/></init><set><url c="ä€😀"/></set>',
    "empty roots": f'<l:a xmlns:l="{NAMESPACE}"/><l:b/><l:c /><b/>',
    "odd end tags": f'<l:a xmlns:l="{NAMESPACE}"><b></b ></l:a ><l:a\n></l:a\n>',
    "greater-than signs": '<a b="x>y" c=">"><d e=\'>>"\'>f>g</d></a><a b=">"/>',
    "texts": "<a>1<b>2</b>3<!-- 4 -->5<![CDATA[6<>]]>&amp;&#x41;</a><a> x </a>",
    "other namespaces": '<a xmlns:x="urn:x" x:y="1"><x:b/><b xmlns="urn:d"><c/></b><c/></a><x:a xml:lang="en"/>',
    "a byte order mark": f"\ufeff{INIT}",
    "a byte order mark and a declaration": f"\ufeff<?xml version='1.0'?>{INIT}",
    "a later byte order mark": INIT + "\ufeff<l:set/>",
    "comments at the end": INIT + "<!-- a --><!-- > b",
    "half a tag at the end": INIT + "<l:set><url c='",
    "junk after the root": INIT + "junk" + INIT,
    "junk tags": INIT + "</l:init>" + INIT,
    "a cut-off reference": "<a>&am</a>",
    "an undeclared prefix": "<a><b/><l:c/><d/></a>",
    "a bad end tag": "<a><b/></c>",
    "an unknown entity": "<a>&nbsp;</a>",
    "a double attribute": "<a><b c='1' c='2'/></a>",
    "bare ampersand": "<a b='x&y'/>",
    "less-than sign in a value": "<a b='<'/>",
    "a control character": "<a>\x01</a>",
    "a document type": '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>',
    "a later document type": INIT + '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
    "a declared encoding": '<?xml version="1.0" encoding="iso-8859-1"?><a/>',
    "two declarations": "<?xml version='1.0'?><?xml version='1.0'?><a/>",
    "two declarations behind a comment": "<!-- --><?xml version='1.0'?><?xml version='1.0'?><a/>",
    "two dashes in a comment": INIT + "<!-- a -- b --><l:set/>",
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_cut_gives_the_same_events(name: str) -> None:
    data = SEQUENCES[name].encode()
    events, error = read([data])
    assert read_patiently([data]) == (events, error)
    for pieces in segmentations(data):
        assert read(pieces) == (events, error), pieces
        assert read_patiently(pieces) == (events, error), pieces


GOOD = [name for name in SEQUENCES if not read([SEQUENCES[name].encode()])[1]]


def test_which_sequences_are_refused() -> None:
    errors = {name: read([text.encode()])[1] for name, text in SEQUENCES.items() if name not in GOOD}
    assert errors == {
        "junk after the root": "syntax",
        "junk tags": "syntax",
        "a later byte order mark": "syntax",
        "a cut-off reference": "syntax",
        "an undeclared prefix": "syntax",
        "a bad end tag": "syntax",
        "an unknown entity": "syntax",
        "a double attribute": "syntax",
        "bare ampersand": "syntax",
        "less-than sign in a value": "syntax",
        "a control character": "syntax",
        "a document type": "encoding",
        "a later document type": "encoding",
        "a declared encoding": "encoding",
        "two declarations": "syntax",
        "two declarations behind a comment": "syntax",
        "two dashes in a comment": "syntax",
    }


def test_events() -> None:
    events, error = read([SEQUENCES["the seed"].encode()])
    assert not error
    assert events == [
        Start("init", {}, 1),
        Start("provider", {"id": "7", "passwd": "x>\ny"}, 2),
        End("provider", "", 2),
        End("init", "", 1),
        Start("set", {"set": "full"}, 1),
        Start("url", {"c": "a"}, 2),
        End("url", "", 2),
        Start("url", {"c": "b"}, 2),
        End("url", "", 2),
        End("set", "", 1),
    ]


def test_namespaces() -> None:
    events, error = read([SEQUENCES["other namespaces"].encode()])
    assert not error
    starts = [(event.name, event.attributes) for event in events if isinstance(event, Start)]
    assert starts == [
        ("a", {"x:y": "1"}),
        ("{urn:x}b", {}),
        ("{urn:d}b", {}),
        ("{urn:d}c", {}),
        ("c", {}),
        ("{urn:x}a", {"xml:lang": "en"}),
    ]


def test_text_is_what_stands_since_the_last_tag() -> None:
    events, error = read([SEQUENCES["texts"].encode()])
    assert not error
    assert [event.text for event in events if isinstance(event, End)] == ["2", "356<>&A", " x "]


def test_the_root_says_its_prefix() -> None:
    feed = XmlFeed()
    feed.receive(f'<p:init xmlns:p="{NAMESPACE}" xmlns="urn:other"/>'.encode())
    assert (feed.root_prefix, feed.root_namespace) == ("p", NAMESPACE)
    feed.next_document()
    assert feed.receive(b"<set>") == [Start("{urn:other}set", {}, 1)]
    assert (feed.root_prefix, feed.root_namespace) == ("", "urn:other")


def test_prefixes_that_are_known_beforehand() -> None:
    data = b"<p:init_accepted><mime>text/*</mime></p:init_accepted>"
    assert read([data])[1] == "syntax"
    events, error = read([data], prefixes={"p": NAMESPACE})
    assert not error
    assert [event.name for event in events] == ["init_accepted", "mime", "mime", "init_accepted"]


def test_it_waits_at_the_end_of_a_document() -> None:
    feed = XmlFeed()
    assert not feed.inside_document
    assert len(feed.receive(b"<a><b/></a><c>")) == 4
    assert feed.waiting
    assert feed.receive(b"<d/>") == []
    assert feed.next_document() == [Start("c", {}, 1), Start("d", {}, 2), End("d", "", 2)]
    assert not feed.waiting
    assert feed.inside_document
    assert feed.next_document() == []


def test_the_end_may_have_come_in_an_earlier_piece() -> None:
    feed = XmlFeed()
    feed.receive(b"<a></a>")
    feed.receive(b"  ")
    feed.receive(b"<!-- x > y")
    assert feed.next_document() == []
    assert feed.receive(b" > z --><b>") == [Start("b", {}, 1)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("lead", ["", "    ", "\n\n"])
def test_only_utf_8(encoding: str, lead: str) -> None:
    data = f"{lead}<a><b/></a>".encode(encoding)
    for pieces in [[data], *segmentations(data)]:
        events, error = read(pieces)
        assert error in ("encoding", "syntax"), pieces
        assert not events


def test_bytes_that_are_no_utf_8() -> None:
    assert read([b"<a b='\xe9'/>"])[1] == "syntax"
    assert read([b"<a>\xc0\xbc</a>"]) == ([Start("a", {}, 1)], "syntax")
    assert read([b"\xff<a/>"])[1] == "encoding"


def test_events_before_the_fault_are_salvaged() -> None:
    feed = XmlFeed()
    with pytest.raises(StreamError):
        feed.receive(b"<a><b/><c></d></a>")
    assert [type(event).__name__ for event in feed.salvaged] == ["Start", "Start", "End", "Start"]
    feed = XmlFeed(FeedLimits(token_bytes=64))
    with pytest.raises(StreamError):
        feed.receive(b"<a><b/>" + b"x" * 100)
    assert len(feed.salvaged) == 3


LIMITS = FeedLimits(
    document_bytes=4000,
    token_bytes=500,
    depth=4,
    attribute_count=6,
    value_chars=100,
    text_chars=200,
    name_count=20,
    name_chars=30,
    prolog_bytes=300,
)

FLOODS = {
    "a long document": "<a>" + "<b/>" * 1000,
    "a long tag": "<a><b " + "c" * 600,
    "a long tag full of ends": "<a><b c='" + ">" * 600,
    "a long comment full of ends": "<a><!--" + ">" * 600,
    "a long instruction": "<a><?b " + ">" * 600,
    "a long text": "<a>" + "x " * 300 + "<b/>",
    "a long text full of ends": "<a>" + ">" * 300 + "<b/>",
    "a text in many pieces": "<a>" + "<!--c-->x" * 300 + "</a>",
    "a text of references": "<a>" + "&#65;" * 300 + "</a>",
    "deep nesting": "<a>" * 10,
    "many attributes": "<a " + " ".join(f"b{i}=''" for i in range(8)) + "/>",
    "a long value": f"<a b='{'x' * 150}'/>",
    "a long element name": f"<{'x' * 31}/>",
    "a long attribute name": f"<a {'x' * 31}=''/>",
    "many element names": "<a>" + "".join(f"<b{i}/>" for i in range(30)) + "</a>",
    "many attribute names": "<a>" + "".join(f"<b c{i}=''/>" for i in range(30)) + "</a>",
    "many prefixes": "<a>" + "".join(f"<b xmlns:c{i}='u'/>" for i in range(30)) + "</a>",
    "a prefix in each document": "".join(f"<a xmlns:c{i}='u'/>" for i in range(10)),
    "many comments before the root": "<!-- -->" * 100 + "<a/>",
    "many comments between documents": "<a/>" + "<!-- -->" * 100 + "<a/>",
    "comments and declarations": ("<!-- -->" * 20 + "<?xml version='1.0'?>") * 20 + "<a/>",
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_are_refused(name: str) -> None:
    data = FLOODS[name].encode()
    for size in (1, 7, 64, 256):
        error = read([data[start : start + size] for start in range(0, len(data), size)], LIMITS)[1]
        assert error in ("limit", "syntax"), size
        assert error == "limit" or name == "comments and declarations"


def test_just_within_the_limits() -> None:
    inner = "".join(f"<b{i} c{i}='{'x' * 100}'>{'y' * 150}</b{i}>" for i in range(5))
    data = f"<!-- {'x' * 100} --><a d1='' d2='' d3='' d4='' d5='' d6=''><b><c><d/></c></b>{inner}</a>".encode()
    for size in (1, 100, 10_000):
        events, error = read([data[start : start + size] for start in range(0, len(data), size)], LIMITS)
        assert not error
        assert len(events) == 2 * 9


def test_white_space_between_elements_is_no_text() -> None:
    data = b"<a>" + (b" " * 150 + b"\n<b/>") * 20 + b"</a>"
    assert not read([data], LIMITS)[1]
    assert not read([data[start : start + 5] for start in range(0, len(data), 5)], LIMITS)[1]


def test_a_long_document_in_one_piece() -> None:
    data = b"<a>" + b"<b/>" * 100_000 + b"</a><a/>"
    events, error = read([data])
    assert (len(events), error) == (200_004, "")


def test_memory_of_what_is_held_is_bounded() -> None:
    feed = XmlFeed()
    feed.receive(b"<a>")
    with pytest.raises(StreamError):
        for _ in range(1000):
            feed.receive(b"x" * 1000)
    assert feed.held_bytes < 20_000


@pytest.mark.parametrize("begin", [b"<a b='", b"<a><!--", b"<a><?b "])
def test_what_expat_reads_again_is_bounded(begin: bytes) -> None:
    """'>' inside of one token, byte by byte: expat begins the token again each time."""
    with counted_work() as work:
        feed = XmlFeed(FeedLimits(value_chars=1_000_000, token_bytes=1_000_000))
        sent = len(begin)
        feed.receive(begin)
        with pytest.raises(StreamError) as caught:
            for _ in range(100_000):
                sent += 1
                feed.receive(b">")
    assert caught.value.entry.name == "limit"
    assert work.scanned_bytes <= 66 * sent + 20_000


def test_a_token_full_of_ends_in_packets() -> None:
    data = b"<a><b c='" + b">" * 8000 + b"'/><!--" + b">" * 16_000 + b"--></a>"
    events, error = read([data[start : start + 1000] for start in range(0, len(data), 1000)])
    assert not error
    assert len(events) == 4


NAMES = st.sampled_from(["a", "b", "url", "x-y", "_z"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)
ATTRIBUTES = st.dictionaries(NAMES, TEXTS, max_size=4)


@given(st.lists(st.tuples(NAMES, ATTRIBUTES, TEXTS), max_size=6), st.integers(1, 50))
def test_what_is_written_is_read(elements: list[tuple[str, dict[str, str], str]], size: int) -> None:
    body = "".join(f"<{name}{write_attributes(pairs)}>{escape(text)}</{name}>" for name, pairs, text in elements)
    data = f"<root>{body}</root>".encode()
    events, error = read([data[start : start + size] for start in range(0, len(data), size)])
    assert not error
    legal = [
        (name, {key: _legal(value) for key, value in pairs.items()}, _legal(text)) for name, pairs, text in elements
    ]
    starts = [event for event in events if isinstance(event, Start) and event.depth == 2]
    ends = [event for event in events if isinstance(event, End) and event.depth == 2]
    assert [(start.name, start.attributes, end.text) for start, end in zip(starts, ends, strict=True)] == legal


def _legal(text: str) -> str:
    illegal = [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF]
    return text.translate(dict.fromkeys(illegal, "\ufffd"))


@given(st.binary(max_size=200), st.integers(1, 20))
def test_any_bytes_give_events_or_a_stream_error(data: bytes, size: int) -> None:
    for lead in (b"", b"<a>", b"<a/>"):
        whole = lead + data
        expected = read([whole])
        cut = read([whole[start : start + size] for start in range(0, len(whole), size)])
        assert cut[0] == expected[0] or expected[1]


@given(
    st.lists(
        st.sampled_from(
            [
                *"<>/&;!-?[]'\"= \nab",
                "<a>",
                "</a>",
                "<a/>",
                "<!--",
                "-->",
                "<?xml version='1.0'?>",
                "]]>",
                "<![CDATA[",
                "&#65;",
                "xmlns",
                "<!DOCTYPE a>",
            ]
        ),
        max_size=25,
    ),
    st.integers(1, 9),
)
def test_any_markup_is_read_alike_however_it_is_cut(tokens: list[str], size: int) -> None:
    data = "".join(tokens).encode()
    events, error = read([data])
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert read(pieces) == (events, error)
