"""What doc/protocol.md says is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from lcc.domain.mimetypes import MimePatterns
from lcc.domain.notices.elements import _TEXTS, _URLS, TEXT_CHARS, ElementChecker, ElementError
from lcc.domain.urls import URL_CHARS, Roots
from lcc.errors import ERRORS
from lcc.model import Provider, ProviderStatus, Session, StoredError
from lcc.protocols import cp_uns_server as server
from lcc.protocols.cp_uns import (
    INIT_LIMITS,
    SET_LIMITS,
    Init,
    InitAccepted,
    SetAccepted,
    SetBegin,
    UrlElement,
    UrlFault,
    write_fault,
)

from .test_cp_uns import assert_valid, read_client, read_server

TEXT = (Path(__file__).parents[2] / "doc" / "protocol.md").read_text(encoding="utf-8")
JOINED = re.sub("\n {4,}", " ", TEXT)
"""Lines of messages are broken for the page."""
PROVIDER_SAYS = re.findall(r"```xml cp\n(.*?)```", JOINED, re.DOTALL)
UNS_SAYS = re.findall(r"```xml uns\n(.*?)```", JOINED, re.DOTALL)


def test_every_code_is_explained() -> None:
    rows = dict(re.findall(r"^\| (\d{4} \| `[a-z0-9-]+`) \| (.*) \|$", TEXT, re.MULTILINE))
    assert rows == {f"{entry.code} | `{entry.name}`": entry.text for entry in ERRORS.values()}


def test_the_limits_are_right() -> None:
    limits = TEXT[TEXT.index("## Limits") : TEXT.index("## Closing")]
    for number in (
        INIT_LIMITS.document_bytes,
        SET_LIMITS.token_bytes,
        SET_LIMITS.attribute_count,
        SET_LIMITS.value_chars,
        SET_LIMITS.name_count,
        SET_LIMITS.name_chars,
        SET_LIMITS.depth,
        SET_LIMITS.prolog_bytes,
        URL_CHARS,
        TEXT_CHARS,
    ):
        assert re.search(rf"\b{number:,}\b", limits), number


def test_the_uns_takes_the_conversation_and_answers_like_this() -> None:
    assert len(PROVIDER_SAYS) == len(UNS_SAYS) == 2
    init, begin, *elements, _end = read_server(["".join(PROVIDER_SAYS).encode()])
    assert init == Init(7, "s3cr<t", "lococa")
    provider = Provider(7, ("http://www.server.com/",), "", files_max=10_000)
    error = StoredError(1, 404, "Not Found", "http://www.server.com/old.html", '["c","old.html","m","text/html"]', 1)
    status = ProviderStatus(1200, 52_428_800, 10, "", 1, 1, (error,), 0)
    mimetypes = ["text/*", "application/pdf"]
    assert server.init_accepted(init.prefix, Session(42, "192.0.2.17"), mimetypes, provider, status) == UNS_SAYS[0]

    assert isinstance(begin, SetBegin)
    checker = ElementChecker(Roots(provider.roots), MimePatterns(mimetypes), "", begin.urlprefix)
    answer = server.set_result_open(begin.prefix)
    received = 0
    for element in elements:
        assert isinstance(element, UrlElement)
        try:
            checker.check(element.attributes)
            received += 1
        except ElementError as fault:
            answer += write_fault(fault.code, fault.url, element.attributes.items(), fault.text)
    assert answer + server.set_accepted(begin.prefix, received) == UNS_SAYS[1]


def test_a_provider_understands_the_answers() -> None:
    welcome, *faults, accepted = read_client(["".join(UNS_SAYS).encode()], "lococa")
    assert isinstance(welcome, InitAccepted)
    assert (welcome.files_free, welcome.space_free_bytes, welcome.full_sets_left) == (8800, None, 10)
    assert [fault.code for fault in faults if isinstance(fault, UrlFault)] == [1204, 1207]
    assert accepted == SetAccepted(3)


def test_the_conversation_is_what_the_schema_says() -> None:
    for message in [*PROVIDER_SAYS, *UNS_SAYS]:
        assert_valid(message, "lococa")


def test_every_attribute_is_explained() -> None:
    table = TEXT[TEXT.index("## The attributes") : TEXT.index("*Change.*")]
    for name in _TEXTS | _URLS:
        assert f"`{name}`" in table
