"""The stream between the provider's tools: whole or not at all."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.provider.stream_format import (
    Header,
    StreamCut,
    StreamFault,
    StreamReader,
    StreamWriter,
    is_deletion,
    named,
    read_elements,
)

_VALUES = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=20)
_NAMES = st.sampled_from(["c", "m", "f", "curl", "mimetype", "len", "unheard-of"])
ELEMENTS = st.lists(st.dictionaries(_NAMES, _VALUES, max_size=4), max_size=8)


def written(elements: list[dict[str, str]], header: Header | None = None) -> bytes:
    """A section as the tools write it."""
    sink = io.BytesIO()
    writer = StreamWriter(sink, header or Header("file2url"))
    for element in elements:
        writer.write(element)
    writer.close()
    return sink.getvalue()


def read(data: bytes, require_end: bool = True) -> list[dict[str, str]]:
    """All elements of a stream."""
    return list(read_elements(io.BytesIO(data), StreamReader(require_end)))


@given(ELEMENTS, st.lists(st.integers(0, 2000), max_size=6))
def test_what_is_written_is_read_however_it_is_cut(elements: list[dict[str, str]], cuts: list[int]) -> None:
    data = written(elements)
    reader = StreamReader()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    got = []
    for begin, end in pairwise(edges):
        got += reader.receive(data[begin:end])
    reader.finish()
    assert got == elements
    assert reader.ends[0].count == len(elements)


@given(ELEMENTS, st.data())
def test_a_stream_cut_anywhere_is_not_taken(elements: list[dict[str, str]], data: st.DataObject) -> None:
    stream = written(elements)
    whole = stream.rstrip(b"\n")
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(StreamFault):
        read(stream[:cut])


def test_a_cut_stream_is_not_taken_as_hand_made_either() -> None:
    stream = written([{"c": "a"}, {"c": "b"}])
    with pytest.raises(StreamCut, match="no end mark"):
        read(stream[: stream.index(b"<?lcc-end")], require_end=False)


def test_the_header_survives_any_path() -> None:
    path = Path('/tmp/a "b" ?> <é>\udcff%')
    reader = StreamReader()
    reader.receive(written([], Header("lcccpstate", True, path, "abc")))
    reader.finish()
    assert reader.headers == [Header("lcccpstate", True, path, "abc")]


@pytest.mark.parametrize(
    "data",
    [
        b'<url c="a"/>',
        b'<?xml version="1.0" encoding="utf-8"?>\n<url\n  c="a"></url>\n\n',
        b'\xef\xbb\xbf<!-- by hand --><url c="a"/><?other thing?>',
        b'<lococa:url c="a"/>',
        b'<lococa:url xmlns:lococa="http://www.lococa.org/1.0" c="a"><later>x</later></lococa:url>',
    ],
)
def test_hand_made_containers(data: bytes) -> None:
    assert read(data, require_end=False) == [{"c": "a"}]
    with pytest.raises(StreamCut) as raised:
        read(data)
    assert "--no-end-mark" in raised.value.then


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"index.html\nabout.html\n", "is not a <url"),
        (b'index.html\n<url c="a"/>', "line 1: 'index.html'"),
        (b'<url c="a"/>\n<page c="b"/>', "line 2: <page>"),
        (b'<url c="a"/>\n<url c=b/>', "line 2: not well-formed"),
        (b'<url c="a"/></url>', "not well-formed"),
        (b'<url c="&e;"/>', "not well-formed"),
        (b'<!DOCTYPE x><url c="a"/>', "not well-formed"),
        (b"<url c='" + b"x" * 70_000, "more than"),
        (b'<url c="a">', "inside an element"),
        (b'<url c="a', "in the middle"),
        (b'<?lcc-stream version="2"?>', "version"),
        (b'<?lcc-end count="x"?>', "count='x'"),
        (b"</lcc-url-sequence><x>", "without a start"),
    ],
)
def test_what_is_no_stream(data: bytes, text: str) -> None:
    with pytest.raises(StreamFault, match=text):
        read(data, require_end=False)


def test_sections_follow_each_other() -> None:
    one, two = written([{"c": "a"}]), written([{"c": "b"}])
    assert read(one + two) == [{"c": "a"}, {"c": "b"}]
    assert read(b'<url c="x"/>' + one, require_end=False) == [{"c": "x"}, {"c": "a"}]
    for wrong in (
        one[: one.index(b"<?lcc-end")] + two,
        one + b'<url c="c"/>',
        b'<url c="c"/>' + one,
        one.replace(b'count="1"', b'count="2"'),
        b"",
        b"\n",
    ):
        with pytest.raises(StreamCut):
            read(wrong)


def test_memory_is_bounded_by_the_longest_element() -> None:
    reader = StreamReader(require_end=False)
    assert reader.receive(b" " * 1_000_000) == []
    assert reader.receive(b'<url c="a"/>') == [{"c": "a"}]


def test_spellings_and_deletions() -> None:
    assert named({"mimetype": "text/html"}, "m") == "text/html"
    assert named({"m": "text/plain", "mimetype": "text/html"}, "m") == "text/plain"
    assert named({}, "m") == ""
    assert is_deletion({"op": "delete"})
    assert is_deletion({"furl": ""})
    assert not is_deletion({"c": "a", "op": "update"})
