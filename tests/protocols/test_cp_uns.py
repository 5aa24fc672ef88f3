"""The CP/UNS conversation: both readers, all writers, the schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from lcc.errors import SetError, StreamError
from lcc.model import Provider, ProviderStatus, Session, StoredError
from lcc.protocols import cp_uns_client as client
from lcc.protocols import cp_uns_server as server
from lcc.protocols.cp_uns import (
    CpMessage,
    Init,
    InitAccepted,
    InitRejected,
    SetAccepted,
    SetBegin,
    SetEnd,
    SetRejected,
    UnsMessage,
    UrlElement,
    UrlFault,
    unpack_sent,
    write_fault,
)
from lcc.protocols.xmlfeed import NAMESPACE, XmlFeed
from tests.support.segments import segmentations

SCHEMA = etree.RelaxNG(etree.parse(Path(__file__).parents[2] / "doc" / "cp-uns.rng"))
PREFIXES = ["lococa", "p", ""]


def read_server(pieces: list[bytes]) -> list[CpMessage]:
    feed = XmlFeed()
    reader = server.ServerReader(feed)
    messages: list[CpMessage] = []
    for piece in pieces:
        messages += reader.events(feed.receive(piece))
        while feed.waiting:
            messages += reader.events(feed.next_document())
    return messages


def read_client(pieces: list[bytes], prefix: str) -> list[UnsMessage]:
    feed = client.reply_feed(prefix)
    reader = client.ClientReader()
    messages: list[UnsMessage] = []
    for piece in pieces:
        messages += reader.events(feed.receive(piece))
        while feed.waiting:
            messages += reader.events(feed.next_document())
    return messages


def assert_valid(text: str, prefix: str) -> None:
    """The message is what the schema says, once the prefix is declared."""
    if "xmlns" not in text:
        declaration = f"xmlns:{prefix}" if prefix else "xmlns"
        head, bracket, rest = text.partition(">")
        slash = "/" if head.endswith("/") else ""
        text = f'{head.removesuffix("/")} {declaration}="{NAMESPACE}"{slash}{bracket}{rest}'
    SCHEMA.assertValid(etree.fromstring(text.encode()))


ELEMENTS = [
    {"c": "index.htm", "b": "frameset.htm?index.htm", "f": "index.htm?lococa", "m": "text/html"},
    {"curl": 'a"<&>\t\n é', "mimetype": "text/html", "op": "delete"},
    {},
]


def conversation(prefix: str) -> str:
    return (
        client.init(7, 'p"<&>w', prefix)
        + client.set_begin(True, "http://h/?a=1&b=", prefix)
        + "".join(map(client.url_element, ELEMENTS))
        + client.set_end(prefix)
        + client.set_begin(False, "", prefix)
        + client.set_end(prefix)
    )


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_the_provider_says_at_every_cut(prefix: str) -> None:
    data = conversation(prefix).encode()
    expected = [
        Init(7, 'p"<&>w', prefix),
        SetBegin(True, "http://h/?a=1&b=", prefix),
        *map(UrlElement, ELEMENTS),
        SetEnd(),
        SetBegin(False, "", prefix),
        SetEnd(),
    ]
    assert read_server([data]) == expected
    for pieces in segmentations(data):
        assert read_server(pieces) == expected


def test_the_password_is_in_no_log() -> None:
    assert "secret" not in repr(Init(7, "secret", "p"))


STATUS = ProviderStatus(
    files_used=12,
    space_used_bytes=3456,
    full_sets_left=3,
    full_set_wanted="cache-crash",
    error_count=5,
    errors_upto=9,
    errors=(
        StoredError(8, 404, "Not Found", "http://h/a?b&c", json.dumps(["c", "a?b&c", "x:y", "z", "code", "1"]), 1),
        StoredError(9, 1301, "the host <name>", "http://h/b", "damaged", 2),
    ),
    processing=17,
)
UNLIMITED = ProviderStatus(0, 0, None, "", 0, 0, (), 0)


def replies(prefix: str) -> list[str]:
    limited = Provider(7, ("http://h/",), "", files_max=10, space_max_bytes=10_000)
    return [
        server.init_accepted(prefix, Session(41, "192.0.2.7"), ["text/*", "application/pdf"], limited, STATUS),
        server.init_accepted(prefix, Session(1, ""), [], Provider(7, (), ""), UNLIMITED),
        server.set_result_open(prefix)
        + write_fault(1204, "http://other/", [("c", "http://other/"), ("note", 'a"\n')], "outside & beyond")
        + write_fault(1201, "", [], "no curl")
        + server.set_accepted(prefix, 98),
        server.set_result_open(prefix) + server.set_accepted(prefix, 0),
        server.set_result_open(prefix) + server.set_accepted(prefix, 5, 2),
        server.set_result_open(prefix) + server.set_rejected(prefix, 1102, "too <large>"),
        server.init_rejected(prefix, 1010, "unknown provider or wrong password"),
    ]


MESSAGES: list[UnsMessage] = [
    InitAccepted(
        41,
        "192.0.2.7",
        ("text/*", "application/pdf"),
        files_used=12,
        files_free=0,
        space_used_bytes=3456,
        space_free_bytes=6544,
        full_sets_left=3,
        full_set_wanted=True,
        full_set_reason="cache-crash",
        error_count=5,
        errors=(
            UrlFault(404, "Not Found", "http://h/a?b&c", {"c": "a?b&c"}),
            UrlFault(1301, "the host <name>", "http://h/b"),
        ),
        processing=17,
    ),
    InitAccepted(1, "", ()),
    UrlFault(1204, "outside & beyond", "http://other/", {"c": "http://other/", "note": 'a"\n'}),
    UrlFault(1201, "no curl", ""),
    SetAccepted(98),
    SetAccepted(0),
    SetAccepted(5, 2),
    SetRejected(1102, "too <large>"),
    InitRejected(1010, "unknown provider or wrong password"),
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_the_uns_says_at_every_cut(prefix: str) -> None:
    data = "".join(replies(prefix)).encode()
    assert read_client([data], prefix) == MESSAGES
    for size in range(1, 90):
        assert read_client([data[start : start + size] for start in range(0, len(data), size)], prefix) == MESSAGES
    for cut in range(0, len(data), 3):
        assert read_client([data[:cut], data[cut:]], prefix) == MESSAGES


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_schema_knows_every_message(prefix: str) -> None:
    for reply in replies(prefix):
        assert_valid(reply, prefix)
    assert_valid(client.init(7, "x", prefix), prefix)
    elements = "".join(map(client.url_element, [*ELEMENTS[:2], {"c": "a", "browse": "no", "hours": "0-8", "f": ""}]))
    assert_valid(client.set_begin(True, "http://h/", prefix) + elements + client.set_end(prefix), prefix)
    assert_valid(client.set_begin(False, "", prefix) + client.set_end(prefix), prefix)


@pytest.mark.parametrize(
    "text",
    [
        f'<init xmlns="{NAMESPACE}"/>',
        '<init><provider id="7" passwd="x"/></init>',
        f'<p:set xmlns:p="{NAMESPACE}" set="half"/>',
        f'<p:set xmlns:p="{NAMESPACE}"><url/></p:set>',
        f'<p:set_result xmlns:p="{NAMESPACE}"/>',
        f'<p:init_rejected xmlns:p="{NAMESPACE}"><reason code="x">text</reason></p:init_rejected>',
    ],
)
def test_the_schema_refuses(text: str) -> None:
    assert not SCHEMA.validate(etree.fromstring(text))


def test_seed_messages() -> None:
    """As they stand in the seed, line breaks and all."""
    data = f"""<lococa:init xmlns:lococa="{NAMESPACE}">
      <provider id="12" passwd="password"/>
    </lococa:init>
    <lococa:set set="partial" urlprefix="http://www.server.com/">
      <url c="index.htm" b="frameset.htm?index.htm" f="index.htm?lococa"/>
    </lococa:set>"""
    assert read_server([data.encode()])[0] == Init(12, "password", "lococa")
    reply = """
    <lococa:init_accepted>
      <connect_info seq="5" lastConnectIP="1.2.3.4"/>
      <mime>text/*</mime>
      <mime>
        application/pdf
      </mime>
      <quota><files used="1" free="2"/><space used="3" free="4"/><fullset allowed="5" wanted="no"/></quota>
      <processing_status errors="2" processing="7">
        <errors>
          <url code="404" url="http://www.server.com/file.html" c="file.html">Not Found</url>
          ...
        </errors>
      </processing_status>
    </lococa:init_accepted>
    <lococa:set_result>
      <set_accepted received="12"/>
    </lococa:set_result>"""
    accepted, result = read_client([reply.encode()], "lococa")
    assert isinstance(accepted, InitAccepted)
    assert accepted.mimetypes == ("text/*", "application/pdf")
    assert accepted.errors == (UrlFault(404, "Not Found", "http://www.server.com/file.html", {"c": "file.html"}),)
    assert not accepted.full_set_wanted
    assert result == SetAccepted(12)


def test_the_protocol_can_grow() -> None:
    data = f"""<p:init xmlns:p="{NAMESPACE}" new="1">
      <hello/><p:provider id="7" passwd="x" y="z"><a/></p:provider>
    </p:init>
    <p:set colour="blue">
      <hello><url c="not this"/></hello><p:url c="a"><new/>text</p:url><x:url xmlns:x="u"/>
    </p:set>"""
    assert read_server([data.encode()]) == [
        Init(7, "x", "p"),
        SetBegin(False, "", "p"),
        UrlElement({"c": "a"}),
        SetEnd(),
    ]
    reply = """<p:init_accepted new="1"><news>x</news><connect_info seq="1" mood="good"/><mime><b/>text/*</mime>
      <quota><files used="1" free=""><x/></files><bandwidth/></quota></p:init_accepted>
      <p:set_result><progress/><errors><warning/></errors><set_accepted received="1" x="y"/></p:set_result>"""
    assert read_client([reply.encode()], "p") == [
        InitAccepted(1, "", ("text/*",), files_used=1),
        SetAccepted(1),
    ]


INIT = f'<p:init xmlns:p="{NAMESPACE}"><provider id="7" passwd="x"/></p:init>'


@pytest.mark.parametrize(
    "data",
    [
        "<init><provider id='7' passwd='x'/></init>",
        "<x:init xmlns:x='urn:x'><provider id='7' passwd='x'/></x:init>",
        f"<set xmlns='{NAMESPACE}'/>",
        f"<init xmlns='{NAMESPACE}'/>",
        f"<init xmlns='{NAMESPACE}'><provider id='7'/></init>",
        f"<init xmlns='{NAMESPACE}'><provider passwd='7'/></init>",
        f"<init xmlns='{NAMESPACE}'><a><provider id='7' passwd='x'/></a></init>",
        INIT + INIT,
        INIT + "<p:sets/>",
        INIT + "<x:set xmlns:x='urn:x'/>",
    ],
)
def test_unknown_messages_to_the_uns(data: str) -> None:
    with pytest.raises(StreamError) as caught:
        read_server([data.encode()])
    assert caught.value.entry.name == "unknown-message"


@pytest.mark.parametrize(
    "data",
    [
        "<p:welcome/>",
        "<p:init_rejected/>",
        "<p:init_rejected><reason code='x'>y</reason></p:init_rejected>",
        "<p:init_rejected><reason>y</reason></p:init_rejected>",
        "<p:set_result><set_accepted/></p:set_result>",
        "<p:set_result><set_accepted received='-1'/></p:set_result>",
        "<p:set_result><set_rejected code='٣'/></p:set_result>",
        "<p:set_result><errors><url/></errors></p:set_result>",
        "<p:init_accepted><quota><files used='many'/></quota></p:init_accepted>",
        f"<p:init_accepted><connect_info seq='{'9' * 30}'/></p:init_accepted>",
    ],
)
def test_unknown_messages_to_the_provider(data: str) -> None:
    with pytest.raises(StreamError) as caught:
        read_client([data.encode()], "p")
    assert caught.value.entry.name == "unknown-message"


@pytest.mark.parametrize("pid", ["", "-1", "x", "7.0", " 7", "٣", "9" * 11, "1_0"])
def test_an_id_that_is_no_number_is_nobody(pid: str) -> None:
    data = f'<p:init xmlns:p="{NAMESPACE}"><provider id="{pid}" passwd="x"/></p:init>'
    assert read_server([data.encode()]) == [Init(0, "x", "p")]


def test_a_set_of_no_known_kind() -> None:
    with pytest.raises(SetError) as caught:
        read_server([(INIT + '<p:set set="half"/>').encode()])
    assert caught.value.entry.name == "bad-set"


def test_a_set_may_bring_its_own_prefix() -> None:
    messages = read_server([(INIT + f'<q:set xmlns:q="{NAMESPACE}"/><set/>').encode()])
    assert [message.prefix for message in messages if isinstance(message, SetBegin)] == ["q", ""]


def test_the_provider_keeps_a_bounded_number_of_errors() -> None:
    many = '<url code="404" url="u"/>' * (client.LISTED_MAX + 5)
    status = f'<processing_status errors="99999" processing="0"><errors>{many}</errors></processing_status>'
    (accepted,) = read_client([f"<p:init_accepted>{status}</p:init_accepted>".encode()], "p")
    assert isinstance(accepted, InitAccepted)
    assert (accepted.error_count, len(accepted.errors)) == (99_999, client.LISTED_MAX)


NAMES = st.sampled_from(["c", "code", "url", "len", "x:y", "note", "xml:lang"])
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20)


@given(st.dictionaries(NAMES, TEXTS, max_size=5), TEXTS, TEXTS, st.integers(100, 1999))
def test_error_containers_give_back_what_was_sent(sent: dict[str, str], url: str, text: str, code: int) -> None:
    reply = server.set_result_open("p") + write_fault(code, url, sent.items(), text) + server.set_accepted("p", 1)
    kept = {name: value for name, value in sent.items() if name in ("c", "len", "note")}
    assert read_client([reply.encode()], "p") == [UrlFault(code, text.strip(), url, kept), SetAccepted(1)]
    assert_valid(reply, "p")


def test_long_texts_are_cut() -> None:
    assert len(write_fault(1202, "", [], "x" * 5000)) < 1100
    assert len(server.init_rejected("p", 1202, "x" * 5000)) < 1200


def test_the_longest_element_comes_back() -> None:
    """What the UNS takes, a provider can take back as an error."""
    longest = {"c": '"' * 4000, "f": "\n" * 300, "note": "&" * 1500}
    element = f"<url c='{longest['c']}' f='{'&#10;' * 300}' note='{'&amp;' * 1500}'/>"
    messages = read_server([f"{INIT}<p:set>{element}</p:set>".encode()])
    assert messages[2] == UrlElement(longest)
    reply = (
        server.set_result_open("p")
        + write_fault(1202, "u" * 4096, longest.items(), "x")
        + server.set_accepted("p", 0)
    )
    fault = read_client([reply.encode()], "p")[0]
    assert isinstance(fault, UrlFault)
    assert fault.attributes == longest


@pytest.mark.parametrize("sent", ["", "x", "{}", '["c"]', '["c",1]', "null", "[[],[]]"])
def test_damaged_sent(sent: str) -> None:
    assert unpack_sent(sent) == []


def test_sent() -> None:
    assert unpack_sent('["c","a","m",""]') == [("c", "a"), ("m", "")]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_deletions_that_are_meant(prefix: str) -> None:
    declaration = f'xmlns:{prefix}="{NAMESPACE}"' if prefix else f'xmlns="{NAMESPACE}"'
    for deletions in (False, True):
        text = (
            client.set_begin(True, "http://h/", prefix, deletions=deletions) + f"</{server.qualified(prefix, 'set')}>"
        )
        (begin, _) = read_server([(client.init(7, "x", prefix) + text).encode()])[1:]
        assert begin == SetBegin(True, "http://h/", prefix, deletions)
        root = server.qualified(prefix, "set")
        SCHEMA.assertValid(etree.fromstring(text.replace(f"<{root} ", f"<{root} {declaration} ", 1)))


@pytest.mark.parametrize(("value", "meant"), [("no", False), ("yes", True), ("true", None), ("", None)])
def test_what_deletions_may_be(value: str, meant: bool | None) -> None:
    data = client.init(7, "x") + f'<lococa:set deletions="{value}"></lococa:set>'
    if meant is None:
        with pytest.raises(SetError, match="neither yes nor no"):
            read_server([data.encode()])
    else:
        assert read_server([data.encode()])[1] == SetBegin(False, "", "lococa", meant)


def test_deletions_that_are_held_are_said() -> None:
    status = ProviderStatus(1500, 1, 10, "", 0, 0, (), 0, deletions_held=1200, deletions_of=1500)
    text = server.init_accepted("lococa", Session(2, ""), ["text/*"], Provider(7, ("http://h/",), ""), status)
    SCHEMA.assertValid(etree.fromstring(text.replace("_accepted>", f'_accepted xmlns:lococa="{NAMESPACE}">', 1)))
    (accepted,) = read_client([text.encode()], "lococa")
    assert isinstance(accepted, InitAccepted)
    assert (accepted.deletions_held, accepted.deletions_of) == (1200, 1500)
