"""The internal wires: flat messages, notices, the hello."""

from __future__ import annotations

from typing import Any, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import StreamError
from lcc.model import UrlNotice
from lcc.protocols import hello, jobs, notifiers, uns_qm, work
from lcc.protocols.flat import ID_MAX, IDS, NUMBER_MAX, Flat, FrequentFlat, Vocabulary
from lcc.protocols.hello import INTERNAL_LIMITS, Hello, read_hello
from lcc.protocols.uns_qm import NOTICE_TAG, read_notice, write_notice
from lcc.protocols.xmlfeed import NAMESPACE, End, FastElements, Start, XmlFeed

MESSAGES = [
    kind
    for module in (uns_qm, notifiers, work, jobs)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Flat) and kind not in (Flat, FrequentFlat, Hello)
]
VOCABULARIES = (
    *(uns_qm.FROM_UNS, uns_qm.FROM_QM),
    *(notifiers.FROM_NOTIFIER, notifiers.FROM_PORT),
    *(work.DOWN, work.UP, jobs.DOWN, jobs.UP),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20)
NUMBERS = st.integers(-NUMBER_MAX, NUMBER_MAX)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    str: TEXTS,
    bool: st.booleans(),
    int | None: st.one_of(st.none(), NUMBERS),
}


def read(text: str) -> Start:
    feed = XmlFeed(INTERNAL_LIMITS)
    feed.receive(f'<l:stream xmlns:l="{NAMESPACE}">'.encode())
    start = feed.receive(text.encode())[0]
    assert isinstance(start, Start)
    return start


# One test for all kinds: pytest-twisted cannot run a hypothesis test that is parametrised.
@given(st.data())
def test_every_message_is_read_as_it_was_written(data: st.DataObject) -> None:
    for kind in MESSAGES:
        hints = get_type_hints(kind)
        names = [field.name for field in attrs.fields(kind)]
        values = {name: st.integers(0, ID_MAX) if name in IDS else VALUES[hints[name]] for name in names}
        message = kind(**{name: data.draw(value) for name, value in values.items()})
        start = read(message.to_xml())
        knowing = [vocabulary for vocabulary in VOCABULARIES if vocabulary._kinds.get(kind.TAG) is kind]
        assert knowing
        assert knowing[0].read(start.name, start.attributes) == message


ODD = st.one_of(TEXTS, st.text("ab \"'&<>\t\n\r\x7fä", max_size=6))
OFTEN = [work.Fetch, work.Done]


def drawn(data: st.DataObject, kind: type[Flat]) -> Flat:
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in attrs.fields(kind):
        usual = ODD if hints[field.name] is str else VALUES[hints[field.name]]
        value = st.integers(0, ID_MAX) if field.name in IDS else usual
        if field.default is not attrs.NOTHING:
            value = st.one_of(st.just(field.default), value)
        values[field.name] = data.draw(value)
    return kind(**values)


def outcome(pieces: list[bytes], vocabulary: Vocabulary, *, plain: bool) -> tuple[list[Flat], str, int]:
    """The messages of a stream, what is wrong with it, and how many of them were read without expat."""
    feed = XmlFeed(INTERNAL_LIMITS)
    feed.receive(f'<l:stream xmlns:l="{NAMESPACE}"><fetch/><done/>'.encode())
    if plain:
        feed.spellings = vocabulary.spellings
    found: list[Flat] = []
    runs = 0
    try:
        for piece in pieces:
            events = feed.receive(piece)
            runs += sum(len(event.rows) for event in events if isinstance(event, FastElements))
            found += vocabulary.messages([event for event in events if not isinstance(event, End)])
    except StreamError as error:
        return found, str(error), runs
    return found, "", runs


@given(st.data())
def test_plain_messages_are_read_without_expat_and_say_the_same(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(OFTEN))
    vocabulary = Vocabulary(*OFTEN, often=OFTEN)
    messages = [drawn(data, kind) for _ in range(data.draw(st.integers(1, 3)))]
    text = "".join(message.to_xml() for message in messages)
    assert outcome([text.encode()], vocabulary, plain=True)[:2] == (messages, "")
    # And where somebody else has spelled it, or something is wrong.
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 2))
    put = data.draw(
        st.sampled_from(["", " ", "\n", '"', "'", "&", "&amp;", "<", ">", "/>", "x", "9", "-", "ä", "\0", ' x="y"'])
    )
    odd = (text[:at] + put + text[at + gone :] + text).encode()
    cut = data.draw(st.integers(0, len(odd)))
    pieces = [odd[:cut], odd[cut:]]
    assert outcome(pieces, vocabulary, plain=True)[:2] == outcome(pieces, vocabulary, plain=False)[:2]


def test_most_messages_are_plain() -> None:
    fetch = work.Fetch(
        "a1", 7, "0f" * 20, 1, "http://example.org/a?b=c;d", "http://example.org/", 300, "text/html", True
    )
    headers = '["Server","x","ETag","\\"5-7\\""]'
    done = work.Done(
        1, "a1", 7, "0f" * 20, 1, 0, 200, etag='"5-7"', headers=headers, modified=0, machine=1, file=2**40
    )
    again = work.Fetch("a2", 8, "0f" * 20, 2, "http://example.org/", "", 1, stored="3", etag='W/"x"', modified=9)
    vocabulary = Vocabulary(*OFTEN, often=OFTEN)
    for messages in ([fetch, again, again], [done, done]):
        text = "".join(message.to_xml() for message in messages)
        assert outcome([text.encode()], vocabulary, plain=True) == (messages, "", len(messages))


@pytest.mark.parametrize("odd", ["9" * 19, "-1", "٣", "1_0", " 1"])
def test_numbers_that_need_a_closer_look_get_it(odd: str) -> None:
    text = f'<done number="{odd}" id="a" pid="1" key="k" generation="1" code="0"/>'
    vocabulary = Vocabulary(*OFTEN, often=OFTEN)
    found = outcome([text.encode()], vocabulary, plain=True)
    assert found == outcome([text.encode()], vocabulary, plain=False)
    assert found[2] == 0


@attrs.frozen
class Sample(Flat):
    TAG = "sample"
    number: int
    text: str = "usual"
    flag: bool = False
    maybe: int | None = attrs.field(default=None, metadata={"wire": "m"})
    pid: int = 0


def test_what_has_its_default_stands_not_on_the_wire() -> None:
    assert Sample(1).to_xml() == '<sample number="1"/>'
    assert Sample(1, "", True, 0).to_xml() == '<sample number="1" text="" flag="yes" m="0"/>'
    assert Sample.from_attributes({"number": "1"}) == Sample(1)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"number": ""},
        {"number": "1_0"},
        {"number": " 1"},
        {"number": "+1"},
        {"number": "--1"},
        {"number": "٣"},
        {"number": "1" * 21},
        {"number": "1", "flag": "true"},
        {"number": "1", "m": "x"},
        {"number": str(NUMBER_MAX + 1)},
        {"number": str(-NUMBER_MAX - 1)},
        {"number": "1", "pid": "-1"},
        {"number": "1", "pid": str(ID_MAX + 1)},
    ],
)
def test_bad_attributes(attributes: dict[str, str]) -> None:
    with pytest.raises(StreamError):
        Sample.from_attributes(attributes)


def test_a_newer_peer_may_say_more() -> None:
    assert Sample.from_attributes({"number": "-1", "colour": "blue"}) == Sample(-1)


def test_an_unknown_message() -> None:
    with pytest.raises(StreamError) as caught:
        Vocabulary(Sample).read("other", {})
    assert caught.value.entry.name == "unknown-message"


ASKED = ("named_only", "retract", "recheck")
"""At most one of them."""
NOTICES = st.builds(
    UrlNotice,
    curl=TEXTS,
    furl=TEXTS,
    burl=TEXTS,
    mimetype=TEXTS,
    subtype=TEXTS,
    md5=st.sampled_from(["", "0" * 32]),
    length=st.one_of(st.none(), st.integers(0, 10**15)),
    mtime=st.one_of(st.none(), st.integers(-(10**12), 10**12)),
    hours=TEXTS,
    delete=st.booleans(),
    ifabsent=st.booleans(),
    **dict.fromkeys(ASKED, st.just(False)),
    sent=st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(str.isprintable),
)


@given(NOTICES, st.sampled_from(["", *ASKED]))
def test_notices_are_read_as_they_were_written(notice: UrlNotice, asked: str) -> None:
    if asked:
        notice = notice._replace(**{asked: True})
    start = read(write_notice(notice))
    assert start.name == NOTICE_TAG
    assert read_notice(start.attributes) == notice


@pytest.mark.parametrize(
    "attributes", [{}, {"c": "x", "l": "y"}, {"c": "x", "t": ""}, {"c": "x", "l": "1.5"}, {"c": "x", "l": "9" * 19}]
)
def test_notices_that_no_uns_writes(attributes: dict[str, str]) -> None:
    with pytest.raises(StreamError):
        read_notice(attributes)


def test_the_hello() -> None:
    said = Hello("botm", 'a"<name>', machine=3, names_upto=20_000, capacity=64, run="r1")
    start = XmlFeed(INTERNAL_LIMITS).receive(said.open_tag().encode())[0]
    assert isinstance(start, Start)
    assert read_hello(start.name, start.attributes) == said


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("init", {"role": "bot", "name": "x"}),
        (hello.ROOT, {"role": "bot"}),
        (hello.ROOT, {"role": "bot", "name": "x", "version": "2"}),
        (hello.ROOT, {"role": "uns", "name": "ä" * 128}),
        (hello.ROOT, {"role": "uns", "name": "x", "epoch": "e" * 256}),
        (hello.ROOT, {"role": "bot", "name": "x", "run": "e" * 256}),
    ],
)
def test_no_hello(name: str, attributes: dict[str, str]) -> None:
    with pytest.raises(StreamError):
        read_hello(name, attributes)


def test_a_copy_with_other_values() -> None:
    fetch = work.Fetch("q-1", 7, "00" * 20, 2, "http://site/a", "http://site/", 60, "text/html")
    found = fetch.replaced(lease_seconds=55, attempt="a/1", sent_ms=12)
    assert found == attrs.evolve(fetch, lease_seconds=55, attempt="a/1", sent_ms=12)
    assert type(found) is work.Fetch and fetch.lease_seconds == 60 and found.to_xml() != fetch.to_xml()
