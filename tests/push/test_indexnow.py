"""IndexNow's rules: what a request may say, and what a key file has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.push.indexnow import URLS_MAX, PushRefused, key_fault, read_body, read_query
from lcc.domain.urls import URL_CHARS

KEY = "abcdef0123456789"


def body(*urls: Any, **more: Any) -> dict[str, Any]:
    return {"host": "www.example.org", "key": KEY, "urlList": list(urls), **more}


def test_a_list() -> None:
    found = read_body(
        body("https://WWW.example.org/a#top", "https://www.example.org/b?x=1", "https://www.example.org/a")
    )
    assert found.urls == ("https://www.example.org/a", "https://www.example.org/b?x=1")
    assert (found.site, found.folder) == ("https://www.example.org/", "https://www.example.org/")
    assert found.location == f"https://www.example.org/{KEY}.txt"


def test_one_url() -> None:
    found = read_query({"url": ["http://www.example.org/shop/1"], "key": [KEY]})
    assert (found.location, found.urls) == (f"http://www.example.org/{KEY}.txt", ("http://www.example.org/shop/1",))
    at = "http://www.example.org/shop/k.txt"
    found = read_query({"url": ["https://www.example.org/shop/1"], "key": [KEY], "keyLocation": [at]})
    assert (found.location, found.folder) == (at, "http://www.example.org/shop/")


def test_http_and_https_urls_are_proved_over_http() -> None:
    found = read_body(body("https://www.example.org/a", "http://www.example.org/b"))
    assert found.location == f"http://www.example.org/{KEY}.txt"


def test_white_space_around_a_host_and_a_url_counts_for_nothing() -> None:
    found = read_body(body(" https://www.example.org/a\n", host=" www.example.org "))
    assert found.urls == ("https://www.example.org/a",)


def test_other_fields_may_be_there_any_number_of_times() -> None:
    fields = {"url": ["http://www.example.org/a"], "key": [KEY], "other": ["1", "2"]}
    assert read_query(fields).urls == ("http://www.example.org/a",)


def test_another_port_if_any_is_allowed() -> None:
    port = body("http://www.example.org:81/a", host="www.example.org:81")
    assert read_body(port, any_port=True).site == "http://www.example.org:81/"


def test_as_many_and_as_long_urls_as_there_may_be() -> None:
    longest = "http://www.example.org/".ljust(URL_CHARS, "a")
    urls = [longest, *(f"http://www.example.org/{n}" for n in range(URLS_MAX - 1))]
    assert read_body(body(*urls)).urls == tuple(urls)


def test_what_is_refused_says_when_it_may_be_sent_again() -> None:
    assert str(PushRefused(429, "later")) == "later"
    assert PushRefused(429, "later", 2.5).retry_seconds == 2.5 and PushRefused(400, "never").retry_seconds == 0


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        ([], 400, "no JSON object"),
        ({}, 400, "urlList"),
        ({"host": "www.example.org", "key": KEY, "urlList": "http://www.example.org/"}, 400, "no list of URLs"),
        ({"host": "www.example.org", "urlList": ["http://www.example.org/"]}, 400, "key is missing"),
        (body("http://www.example.org/", key=["abcdefgh"]), 400, "key is no string"),
        (body("http://www.example.org/", keyLocation=["k"]), 400, "keyLocation is no string"),
        (body("http://www.example.org/", keyLocation="k.txt"), 400, "keyLocation: k.txt: "),
        (body("http://www.example.org/", keyLocation="http://www.example.org/shop/"), 422, "no file"),
        (body("http://www.example.org/", host="[::1"), 400, "host: [::1: "),
        (body("http://www.example.org/".ljust(URL_CHARS + 1, "a")), 400, "more than 4096 characters"),
        (body("http://www.example.org/" + "a/../" * 1000), 400, "more than 4096 characters"),
        (body("http://www.example.org/" + "\u00fc" * 1000), 400, "more than 4096 characters"),
        (body(), 400, "urlList"),
        (body("http://www.example.org/", host=""), 400, "host is missing"),
        (body("http://www.example.org/", host=5), 400, "host is no string"),
        (body("http://www.example.org/", host="www.example.org/x"), 400, "no host name"),
        (body("http://www.example.org/", key=""), 400, "key is missing"),
        (body("http://www.example.org/", key="short"), 422, "8 to 128"),
        (body("http://www.example.org/", key="../../etc/passwd"), 422, "8 to 128"),
        (body("http://www.example.org/", 7), 400, "urlList[1] is no string"),
        (body("/relative"), 400, "urlList[0]"),
        (body("ftp://www.example.org/a"), 400, "no http or https"),
        (body("http://u:p@www.example.org/a"), 400, "urlList[0]"),
        (body("http://www.example.org/" + "a" * 5000), 400, "characters"),
        (body("http://www.example.org/", "http://other.example/a"), 422, "1 of 2 URLs are not of the host"),
        (body("http://www.example.org.evil.example/a"), 422, "not of the host"),
        (body("http://www.example.org:81/a"), 422, "not of the host"),
        (body("http://www.example.org:81/a", host="www.example.org:81"), 422, "usual ports"),
        (body("http://www.example.org/", keyLocation="http://other.example/k.txt"), 422, "not of the host"),
        (body("http://www.example.org/", keyLocation="http://www.example.org/?f=k"), 422, "no file"),
        (body("http://www.example.org/", keyLocation="http://www.example.org/shop/k.txt"), 422, "not below"),
        (body("http://www.example.org/shop/../a", keyLocation="http://www.example.org/shop/k.txt"), 422, "not below"),
        (body("http://www.example.org/", keyLocation="https://www.example.org/k.txt"), 422, "not below"),
        (body(*(f"http://www.example.org/{n}" for n in range(URLS_MAX + 1))), 422, "10,001 URLs"),
    ],
)
def test_what_is_no_submission(document: Any, status: int, words: str) -> None:
    with pytest.raises(PushRefused) as refused:
        read_body(document)
    assert refused.value.status == status and words in refused.value.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "url is missing"),
        ({"url": ["http://a/"]}, "key is missing"),
        ({"url": ["/a"], "key": [KEY]}, "url: /a: "),
        ({"url": ["http://a/", "http://b/"], "key": [KEY]}, "url is there 2 times"),
        ({"url": ["http://a/"], "key": [KEY, KEY]}, "key is there 2 times"),
        ({"url": ["http://a/"], "key": [KEY], "keyLocation": ["/k", "/k"]}, "keyLocation is there 2 times"),
    ],
)
def test_a_query_that_is_none(fields: dict[str, list[str]], words: str) -> None:
    with pytest.raises(PushRefused) as refused:
        read_query(fields)
    assert refused.value.status == 400 and words in refused.value.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(KEY) | st.just("http://a.example/"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["host", "key", "keyLocation", "urlList"]), inner)
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_is_sent_is_taken_or_refused_with_a_reason(document: Any) -> None:
    try:
        found = read_body(document, any_port=True)
    except PushRefused as refused:
        assert refused.status in (400, 422) and refused.text.isprintable()
    else:
        assert found.urls and all(url.partition("://")[2].startswith("a.example/") for url in found.urls)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (KEY.encode(), ""),
        (b"\xef\xbb\xbf" + KEY.encode() + b"\r\n", ""),
        (b"", "empty"),
        (b"otherkey", "it contains 'otherkey'"),
        (f"<html>{KEY}.txt was not found</html>".encode(), "not just the key"),
        (f"{KEY}\n{KEY}".encode(), "not just the key"),
        (b"\xff\xfe\x00", "not just the key"),
    ],
)
def test_a_key_file(content: bytes, words: str) -> None:
    fault = key_fault(content, KEY)
    assert words in fault and bool(words) == bool(fault)


def test_a_key_file_may_have_another_name() -> None:
    at = "http://www.example.org/k.txt"
    assert read_body(body("http://www.example.org/a", keyLocation=at)).location == at
    with pytest.raises(PushRefused, match="usual ports"):
        read_query({"url": ["http://www.example.org:81/a"], "key": [KEY]})


def test_of_what_was_sent_a_hundred_and_twenty_characters_are_told() -> None:
    for count, shown in ((120, "_" * 120 + " is"), (121, "_" * 120 + "\u2026 is")):
        with pytest.raises(PushRefused) as refused:
            read_body(body("http://www.example.org/a", key="_" * count))
        assert f"key: {shown}" in refused.value.text
    assert key_fault(b"_" * 500, KEY) == f"it contains '{'_' * 120}', and not just the key"
