"""The rules of WebSub: links, signatures, leases, questions."""

from __future__ import annotations

import time
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.push.websub import (
    RENEWAL_SECONDS_MAX,
    WebSubRefused,
    hub_named,
    hub_of,
    links_of_headers,
    question_fault,
    read_form,
    read_hubs,
    renewal_time,
    sign,
    signature_fault,
)
from lcc.model.push.websub import HubOfFeed, HubState, HubSubscription

BASE = "http://www.example.org/news/feed.xml"
HUB, TOPIC = "https://hub.example.net/", "http://www.example.org/news/feed.xml?a=%7e"
ASKED = HubSubscription("ab" * 16, 3, TOPIC, HUB, "secret", HubState.ASKING, 10, 10, asked_time=10)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            '<https://hub.example.net/>; rel="hub", </x>; rel=self',
            [("hub", HUB), ("self", "http://www.example.org/x")],
        ),
        ('<https://hub.example.net/>;rel="hub preload"; title="a, <b>"', [("hub", HUB), ("preload", HUB)]),
        ("<feed?a=%7e>; REL = Self", [("self", "http://www.example.org/news/feed?a=%7e")]),
        ("<javascript:x>; rel=hub, <ftp://h/>; rel=hub, <http://[/>; rel=hub", []),
        ("no link, <x>; rel=hub", []),
        ("", []),
    ],
)
def test_links(line: str, found: list[tuple[str, str]]) -> None:
    assert links_of_headers([line], BASE) == found


@given(st.text(alphabet='<>;,="\\ relhub/', max_size=300))
def test_any_header(line: str) -> None:
    links_of_headers([line], BASE)


def test_a_header_that_takes_long_elsewhere() -> None:
    begun = time.process_time()
    for part in ("<a>;r=", "<a>; rel = ", '<a>;x="\\', "<a>" + " ;" * 3, "<a>; " + "r " * 3):
        assert links_of_headers([part + " " * 8000, part * 1000, part + ";a" * 4000 + "!,"], BASE) == []
    assert time.process_time() - begun < 60  # not hours


def test_the_first_of_each_counts() -> None:
    links = [("hub", "mailto:x"), ("hub", HUB), ("hub", "https://other.example.net/"), ("self", TOPIC)]
    assert hub_named(links, BASE) == HubOfFeed(HUB, TOPIC)
    assert hub_named([("hub", HUB)], BASE) == HubOfFeed(HUB, BASE)
    assert hub_named([("self", TOPIC)], BASE) is None


def test_configured_hubs() -> None:
    configured = read_hubs(
        [
            "https://www.youtube.com/feeds/videos.xml https://pubsubhubbub.appspot.com/subscribe",
            "https://www.youtube.com/ https://hub.example.net/",
        ]
    )
    video = "https://www.youtube.com/feeds/videos.xml?channel_id=x"
    assert hub_of(video, None, configured) == HubOfFeed("https://pubsubhubbub.appspot.com/subscribe", video)
    assert hub_of("https://www.youtube.com/x", HubOfFeed("http://other/", TOPIC), configured) == HubOfFeed(HUB, TOPIC)
    assert hub_of(BASE, None, configured) is None
    for wrong in ("https://www.youtube.com/", "a b", "ftp://a/ http://b/", "http://a/ http://b/ http://c/"):
        with pytest.raises(ValueError, match="PREFIX HUB"):
            read_hubs([wrong])


def test_signatures_are_made_with_sha256() -> None:
    assert sign("secret", b"body") == sign("secret", b"body", "sha256")
    assert sign("secret", b"body").startswith("sha256=")


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_signatures(method: str) -> None:
    right = sign("secret", b"body", method)
    assert signature_fault("secret", right, b"body") == ""
    assert signature_fault("secret", right.upper(), b"body") == ""
    assert "wrong" in signature_fault("secret", right, b"bodY")
    assert "wrong" in signature_fault("Secret", right, b"body")


@pytest.mark.parametrize(
    "header", [None, "", "md5=00", "sha256", "sha256:00", "sha256=" + "0" * 10_000, "sha256=\xe9"]
)
def test_forged_signatures(header: str | None) -> None:
    assert signature_fault("secret", header, b"body")


def test_renewal() -> None:
    assert renewal_time(1000, 900) == 1600
    assert renewal_time(0, 21 * 86400) == RENEWAL_SECONDS_MAX
    assert renewal_time(0, 10**9) == RENEWAL_SECONDS_MAX


def fault(asked: HubSubscription = ASKED, **changed: Any) -> str:
    fields = {"mode": "subscribe", "topic": TOPIC, "challenge": "abc", "lease_seconds": "86400"} | changed
    return question_fault(asked, {f"hub.{name}": value for name, value in fields.items() if value is not None})


def test_questions() -> None:
    assert fault() == "" and fault(lease_seconds="1000000000") == "" and fault(lease_seconds=None) == ""
    assert "topic" in fault(topic=TOPIC + "x") and "challenge" in fault(challenge="")
    assert "challenge" in fault(challenge="x" * 10_000) and "mode" in fault(mode="publish")
    assert "0 seconds" in fault(lease_seconds="0")
    for text in ("-1", "1e9", "9" * 5000, ""):
        assert "no number" in fault(lease_seconds=text)
    # Nobody has asked: a hub cannot subscribe, or unsubscribe, by itself.
    assert "asked" in fault(attrs.evolve(ASKED, asked_time=0)) and "wanted" in fault(mode="unsubscribe")
    leaving = attrs.evolve(ASKED, state=HubState.LEAVING)
    assert fault(leaving, mode="unsubscribe") == "" and fault(leaving)


def test_forms() -> None:
    assert read_form(b"hub.mode=a&x=%C3%A9&x=2") == {"hub.mode": "a", "x": "2"}
    for body, words in ((b"hub.mode=a&hub.mode=b", "twice"), (b"\xff", "no form"), (b"a=%ff", "no form")):
        with pytest.raises(WebSubRefused, match=words):
            read_form(body)
    with pytest.raises(WebSubRefused):
        read_form(b"a=1&" * 1000)
