"""What strangers say in WebSub: bounds, and the words for what is wrong."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from lcc.domain.push.websub import (
    CHALLENGE_CHARS_MAX,
    FIELDS_MAX,
    LEASE_ASKED_SECONDS,
    LEASE_NUMBER_MAX,
    RENEWAL_SECONDS_MAX,
    SECRET_BYTES_MAX,
    SIGNATURE_CHARS_MAX,
    WebSubRefused,
    absolute_url,
    hub_of,
    is_url,
    lease_fault,
    links_of_headers,
    once,
    question_fault,
    read_form,
    read_hubs,
    renewal_time,
    sign,
    signature_fault,
    subscription_form,
)
from lcc.domain.urls import URL_CHARS
from lcc.model.push.websub import HubOfFeed, HubState, HubSubscription

FEED = "http://site.example/feed"
ASKED = HubSubscription("id", 1, FEED, "http://hub.example/", "secret", HubState.ASKING, 1, 1, 1)


def test_a_hundred_links_are_read_and_only_those_that_have_a_relation() -> None:
    assert len(links_of_headers(["<a>;rel=x, " * 99 + "<b>;rel=y"], FEED)) == 100
    assert len(links_of_headers(["<a>;rel=x, " * 101 + "<b>;rel=y"], FEED)) == 100
    assert links_of_headers(["<a>, <b>; title=x, <c>;rel=hub,", "", '<d>;rel=""'], FEED) == [
        ("hub", "http://site.example/c")
    ]


def test_urls_are_of_http_and_bearable() -> None:
    long = "http://h/" + "a" * (URL_CHARS - 9)
    assert is_url(long) is True and is_url(long + "a") is False
    assert is_url("ftp://h/") is False and is_url("no url") is False
    assert absolute_url(" b ", FEED) == "http://site.example/b"
    assert absolute_url("http://[::1", FEED) == absolute_url("mailto:a", FEED) == ""


def test_the_hub_of_the_longest_prefix() -> None:
    configured = read_hubs(["http://site.example/ https://one.example/", "http://site.example/f http://two.example/"])
    assert hub_of(FEED, None, configured) == HubOfFeed("http://two.example/", FEED)
    assert hub_of(FEED, HubOfFeed("http://x/", "http://t/"), configured) == HubOfFeed(
        "http://two.example/", "http://t/"
    )
    assert hub_of(FEED, None, configured[1:] + configured[:1]) == HubOfFeed("http://two.example/", FEED)
    for line in (
        "http://a/",
        "http://a/ b",
        "http://a/ http://b/ http://c/",
        "ftp://a/ http://b/",
        "http://a/ ftp://b/",
    ):
        with pytest.raises(ValueError, match="PREFIX HUB"):
            read_hubs([line])


def test_signatures() -> None:
    right = sign("secret", b"body", "sha512")
    assert signature_fault("secret", f" {right.upper()} ", b"body") == ""
    assert "is wrong" in signature_fault("secret", right, b"other")
    assert "is wrong" in signature_fault("secret", right + "=", b"body")
    assert "is wrong" in signature_fault("secret", "sha1=\u00e9\ud800", b"body")
    expected = "X-Hub-Signature is not METHOD=HEX, with one of sha1, sha256, sha384, sha512"
    for header in ("sha1", "md5=" + "0" * 32, "sha1=" + "0" * (SIGNATURE_CHARS_MAX - 4)):
        assert signature_fault("secret", header, b"body") == expected
    assert "is wrong" in signature_fault("secret", "sha1=" + "0" * (SIGNATURE_CHARS_MAX - 5), b"body")
    assert "is missing" in signature_fault("secret", "", b"body")


def test_leases() -> None:
    assert lease_fault("60") == "" and "59 seconds ends before" in lease_fault("59")
    assert lease_fault("x" * 99) == f"hub.lease_seconds: {'x' * 40!r} is no number of seconds"
    assert renewal_time(100, 61) == 140 and renewal_time(100, 10**9) == 100 + 14 * 86400


def test_forms() -> None:
    assert read_form(b"a=&b=%C3%A9") == {"a": "", "b": "\u00e9"}
    for body in (b"a=%ff", b"\xff", b"&".join([b"a=1"] * 51)):
        with pytest.raises(WebSubRefused, match="the body is no form") as caught:
            read_form(body)
        assert caught.value.status == 400
    with pytest.raises(WebSubRefused, match="there twice") as caught:
        once([("hub.mode", "a"), ("hub.mode", "b")])
    assert caught.value.status == 400
    assert once([("x", "a"), ("x", "b")]) == {"x": "b"}


def test_questions_of_hubs() -> None:
    asked = {"hub.mode": "subscribe", "hub.topic": FEED, "hub.challenge": "c" * CHALLENGE_CHARS_MAX}
    assert question_fault(ASKED, asked) == ""
    assert "1 to 1024 characters" in question_fault(ASKED, {**asked, "hub.challenge": "c" * 1025})
    assert "1 to 1024 characters" in question_fault(ASKED, {"hub.mode": "subscribe", "hub.topic": FEED})
    assert "hub.topic is not" in question_fault(ASKED, {**asked, "hub.topic": FEED + "/"})
    fault = question_fault(ASKED, {**asked, "hub.mode": "m" * 99})
    assert fault == f"hub.mode: {'m' * 40!r} is none of subscribe, unsubscribe, denied"
    assert question_fault(ASKED, {name: text for name, text in asked.items() if name != "hub.mode"}).startswith(
        "hub.mode: '' is none"
    )


def test_what_a_hub_is_asked() -> None:
    both = [("hub.topic", FEED), ("hub.callback", "http://lcc.example/c?a=b")]
    assert parse_qsl(subscription_form("subscribe", ASKED, "http://lcc.example/c?a=b").decode()) == [
        *(
            ("hub.mode", "subscribe"),
            *both,
            ("hub.secret", "secret"),
            ("hub.lease_seconds", f"{LEASE_ASKED_SECONDS}"),
        ),
    ]
    assert parse_qsl(subscription_form("unsubscribe", ASKED, "http://lcc.example/c?a=b").decode()) == [
        *(("hub.mode", "unsubscribe"), *both),
    ]


def test_a_refusal_says_why() -> None:
    refused = WebSubRefused(400, "no form")
    assert (refused.status, refused.text, str(refused)) == (400, "no form", "no form")


def test_without_a_configured_hub_it_is_the_one_that_the_feed_names() -> None:
    named = HubOfFeed("http://hub.example/", FEED)
    assert hub_of(FEED, named, [("http://other.example/", "http://hub2.example/")]) is named
    assert hub_of(FEED, None, []) is None


def test_bounds_that_others_rely_on() -> None:
    """Of a secret the specification says it; the others are in the documentation."""
    assert (SECRET_BYTES_MAX, SIGNATURE_CHARS_MAX, CHALLENGE_CHARS_MAX, FIELDS_MAX) == (199, 256, 1024, 50)
    assert (LEASE_ASKED_SECONDS, RENEWAL_SECONDS_MAX, LEASE_NUMBER_MAX) == (21 * 86400, 14 * 86400, 10**12)
    assert lease_fault(f"{10**12}") == "" and "is no number" in lease_fault(f"{10**12 + 1}")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("<>;rel=self", [("self", FEED)]),
        ('<a>;title="";rel=hub', [("hub", "http://site.example/a")]),
        ("<a>;crossorigin;rel=hub", [("hub", "http://site.example/a")]),
        ("<a>;;rel=hub", []),
        ('<a>;rel="";rel=hub', []),
    ],
)
def test_parameters_of_links(line: str, found: list[tuple[str, str]]) -> None:
    assert links_of_headers([line], FEED) == found
