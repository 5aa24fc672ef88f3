"""URLs: one spelling for each, and no way out of a root."""

from __future__ import annotations

import string
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.urls import (
    REDIRECT_CHARS,
    URL_CHARS,
    Roots,
    _normalise_slowly,
    followed_redirect,
    is_surely_normal,
    names_scheme,
    normalise,
    normalise_prefix,
    normalise_root,
    owner_of,
    recoded,
    redirect_outside,
    redirect_target,
    redirected_to,
    resolve,
    scheme_of,
    site_of,
)
from lcc.errors import FetchError, UrlError

SPELLINGS = [
    ("http://www.server.com/", "http://www.server.com/"),
    ("http://www.server.com", "http://www.server.com/"),
    ("HTTP://WWW.Server.COM/Index.HTM", "http://www.server.com/Index.HTM"),
    ("http://www.server.com./", "http://www.server.com/"),
    ("http://h:80/", "http://h/"),
    ("http://h:/", "http://h/"),
    ("http://h:0080/", "http://h/"),
    ("http://h:8080/x", "http://h:8080/x"),
    ("http://h:443/", "http://h:443/"),
    ("http://h:65535/", "http://h:65535/"),
    ("https://h:443/", "https://h/"),
    ("https://h:80/", "https://h:80/"),
    ("ftp://h:21/x", "ftp://h/x"),
    ("http://h?q", "http://h/?q"),
    ("http://h#f", "http://h/#f"),
    ("http://h/?", "http://h/?"),
    ("http://h/a/./b/../c", "http://h/a/c"),
    ("http://h/../../a", "http://h/a"),
    ("http://h/a/..", "http://h/"),
    ("http://h/a/.", "http://h/a/"),
    ("http://h/a//../b", "http://h/a/b"),
    ("http://h/%2e%2E/a/%2e/b", "http://h/a/b"),
    ("http://h/...", "http://h/..."),
    ("http://h/.well-known/x", "http://h/.well-known/x"),
    ("http://h/a?/../b", "http://h/a?/../b"),
    ("http://h/%7euser/%41", "http://h/~user/A"),
    ("http://h/%c3%a9", "http://h/%C3%A9"),
    ("http://h/é?é#é", "http://h/%C3%A9?%C3%A9#%C3%A9"),
    ('http://h/a b|c{}<>"`^[]\\', "http://h/a%20b%7Cc%7B%7D%3C%3E%22%60%5E%5B%5D%5C"),
    ("http://h/100%", "http://h/100%25"),
    ("http://h/%zz%2", "http://h/%25zz%252"),
    ("http://h/a%2Fb%2f", "http://h/a%2Fb%2F"),
    ("http://h/?a=[1]&b=%20#x#y", "http://h/?a=%5B1%5D&b=%20#x%23y"),
    ("http://h/a-b?c-d=%2D<>#e-f<", "http://h/a-b?c-d=-%3C%3E#e-f%3C"),
    ("http://h/x;v=1,2:3@4!$&'()*+", "http://h/x;v=1,2:3@4!$&'()*+"),
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://BÜCHER。example/", "http://xn--bcher-kva.example/"),
    ("http://XN--BCHER-KVA.example/", "http://xn--bcher-kva.example/"),
    ("http://a_b.example/", "http://a_b.example/"),
    ("http://127.0.0.1:8000/x", "http://127.0.0.1:8000/x"),
    ("http://\uff11\uff12\uff17.0.0.1/", "http://127.0.0.1/"),
    ("http://[::1]:80/", "http://[::1]/"),
    ("http://[2001:DB8:0:0::1]:8080/", "http://[2001:db8::1]:8080/"),
    ("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ("file:///srv/../x", "file:///x"),
    ("file://localhost/x", "file:///x"),
    ("file:///srv/a%2f..%2Fb", "file:///srv/a%2F..%2Fb"),
    ("ftp://H/%2e%2e/a;type=i", "ftp://h/a;type=i"),
    ("Gopher://H.:70/0/a/../%7eb", "gopher://h:70/0/~b"),
    ("gopher://h", "gopher://h/"),
    ("x-notes+1:///a/./b", "x-notes+1:///a/b"),
    ("gopher://[::1]:7070/", "gopher://[::1]:7070/"),
    ("http://" + "a." * 100 + "example/", "http://" + "a." * 100 + "example/"),
]


@pytest.mark.parametrize(("told", "normal"), SPELLINGS)
def test_spellings(told: str, normal: str) -> None:
    assert normalise(told) == normal
    assert normalise(normal) == normal


REFUSED = [
    ("", "bad-url"),
    ("index.html", "bad-url"),
    ("//h/x", "bad-url"),
    ("http:", "bad-url"),
    ("http:/h/", "bad-url"),
    ("http:h", "bad-url"),
    ("http://", "bad-url"),
    ("http:///x", "bad-url"),
    ("http://:80/", "bad-url"),
    ("http://a..b/", "bad-url"),
    ("http://.a/", "bad-url"),
    ("http://a b/", "bad-url"),
    ("http://h\\x/", "bad-url"),
    ("http://%68/", "bad-url"),
    ("http://h:0/", "bad-url"),
    ("http://h:65536/", "bad-url"),
    ("http://h:99999999999/", "bad-url"),
    ("http://h:-1/", "bad-url"),
    ("http://h:8 0/", "bad-url"),
    ("http://h:\uff18\uff10/", "bad-url"),
    ("http://h:80:80/", "bad-url"),
    ("http://127.1/", "bad-url"),
    ("http://2130706433/", "bad-url"),
    ("http://0x7f.0.0.1/", "bad-url"),
    ("http://a.0x7f/", "bad-url"),
    ("http://0177.0.0.1/", "bad-url"),
    ("http://256.0.0.1/", "bad-url"),
    ("http://[::1/", "bad-url"),
    ("http://[::1]x/", "bad-url"),
    ("http://[1.2.3.4]/", "bad-url"),
    ("http://[fe80::1%25eth0]/", "bad-url"),
    ("http://[fe80::1%eth0]/", "bad-url"),
    ("http://" + "a" * 64 + ".example/", "bad-url"),
    ("http://" + "a." * 130 + "example/", "bad-url"),
    ("http://h/\x00", "bad-url"),
    ("http://h/a\nb", "bad-url"),
    ("http://h/a\tb", "bad-url"),
    ("\thttp://h/", "bad-url"),
    (" http://h/", "bad-url"),
    ("http://h/\x85", "bad-url"),
    ("http://h/\ud800", "bad-url"),
    ("http://\u200b/", "bad-url"),
    ("file://server/x", "bad-url"),
    ("mailto:a@b", "bad-scheme"),
    ("javascript:alert(1)", "bad-scheme"),
    ("gopher:h", "bad-scheme"),
    ("gopher://h:0/", "bad-url"),
    ("gopher://a b/", "bad-url"),
    ("gopher://u@h/", "user-info"),
    ("http://user@h/", "user-info"),
    ("http://user:pw@h/", "user-info"),
    ("http://@h/", "user-info"),
    ("http://h\\@evil/", "user-info"),
    ("file://u@localhost/", "user-info"),
]


@pytest.mark.parametrize(("told", "name"), REFUSED)
def test_refused(told: str, name: str) -> None:
    with pytest.raises(UrlError) as caught:
        normalise(told)
    assert caught.value.entry.name == name


TRICKY = st.sampled_from(
    [
        *"/.?#%:@\\;&=[]~ é",
        "..",
        "%2e",
        "%2E",
        "%2f",
        "%5c",
        "%25",
        "%",
        "a",
        "b",
        "//",
        "/../",
        "\u3002",
        "\uff0e",
        "80",
    ]
)
AUTHORITY = st.sampled_from(
    ["h", "site.example", "H:80", "h:8080", "[::1]", "10.0.0.1", "u@h", "h.", "bücher.de", ""]
)
ANY_URL = st.builds(
    lambda scheme, host, rest: f"{scheme}://{host}{rest}",
    st.sampled_from(["http", "https", "ftp", "HTTP", "file"]),
    AUTHORITY,
    st.one_of(st.lists(TRICKY, max_size=12).map("".join), st.text(max_size=20)),
)
LEGAL = frozenset(string.ascii_letters + string.digits + "-._~:/?#[]@!$&'()*+,;=%")


@given(ANY_URL)
def test_normal_is_normal(url: str) -> None:
    try:
        normal = normalise(url)
    except UrlError:
        return
    assert normalise(normal) == normal
    assert frozenset(normal) <= LEGAL
    parts = urlsplit(normal)
    assert parts.username is None
    assert parts.path.startswith("/")
    assert not {".", ".."} & set(parts.path.split("/"))


@given(st.lists(TRICKY, max_size=15).map("".join))
def test_no_way_out_of_a_root(rest: str) -> None:
    """Whatever stands behind the root's text: what is inside by its string is inside for a web server, too."""
    root = normalise_root("http://site.example/a/b/")
    roots = Roots([root])
    try:
        normal = normalise(f"http://site.example/a/b/{rest}")
    except UrlError:
        return
    if roots.contains(normal):
        parts = urlsplit(normal)
        assert parts.netloc == "site.example"
        # Decoded once, as a server does; an encoded slash or backslash is part of a name.
        for segment in parts.path.removeprefix("/a/b/").split("/"):
            assert unquote(segment) not in (".", "..")
    else:
        assert ".." in unquote(unquote(rest)).replace("\\", "/") or ".." in rest


@given(st.lists(TRICKY, max_size=10).map("".join))
def test_no_way_out_of_a_host(rest: str) -> None:
    """Also a root without much of a path holds on to its host and port."""
    try:
        normal = normalise(f"http://site.example{rest}")
    except UrlError:
        return
    if Roots([normalise_root("http://site.example")]).contains(normal):
        assert urlsplit(normal).netloc == "site.example"


@pytest.mark.parametrize(
    "url",
    [
        "http://site.example/a/../secret",
        "http://site.example/a/%2e%2e/secret",
        "http://site.example/a/.%2E/secret",
        "http://site.example/a/b/../../secret",
        "http://site.example:8080/a/x",
        "http://site.example.evil/a/x",
        "http://evil/site.example/a/x",
        "http://evil/?http://site.example/a/",
        "ftp://site.example/a/x",
        "https://site.example:80/a/x",
        "http://[::1]/a/x",
        "http://site.example/A/x",
        "http://site.example/a",
    ],
)
def test_outside(url: str) -> None:
    assert not Roots(["http://site.example/a/"]).contains(normalise(url))


def test_inside() -> None:
    roots = Roots(["http://site.example/a/", "https://safe.example/", "http://h:8080/~x"])
    for url in ("http://site.example/a/", "http://SITE.example:80/a/b?c#d", "https://site.example/a/x"):
        assert roots.contains(normalise(url))
    assert roots.contains(normalise("https://safe.example/x"))
    assert not roots.contains(normalise("http://safe.example/x"))
    assert roots.contains(normalise("http://h:8080/%7Exyz"))
    assert roots.contains(normalise("https://h:8080/~x"))
    assert not Roots([]).contains("http://h/")


def test_roots() -> None:
    assert normalise_root("http://H") == "http://h/"
    assert normalise_root("http://h/cgi?p=") == "http://h/cgi?p="
    for root in ("http://h/#x", "h", "http://u@h/", "mailto:x"):
        with pytest.raises(UrlError):
            normalise_root(root)


def test_resolve() -> None:
    assert resolve("http://h/", "a.html") == "http://h/a.html"
    assert resolve("http://h/", "Foo::Bar.html") == "http://h/Foo::Bar.html"
    assert resolve("http://h/", "/a") == "http://h//a"
    assert resolve("http://h/?p=", "https://x/y") == "https://x/y"
    assert resolve("http://h/", "gopher://x/y") == "gopher://x/y"
    assert resolve("", "a") == "a"
    assert names_scheme("svn+ssh://h/")
    assert not names_scheme("mailto:x")


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/x", "http://h/x"),
        ("x?y#z", "http://h/a/x?y"),
        ("../../x", "http://h/x"),
        ("?q", "http://h/a/b?q"),
        ("//other:80/x", "http://other/x"),
        ("https://h/a b", "https://h/a%20b"),
        (" /x ", "http://h/x"),
        ("", "http://h/a/b"),
        ("\\\\evil\\x", "http://h/a/%5C%5Cevil%5Cx"),
        ("/\\evil/x", "http://h/%5Cevil/x"),
    ],
)
def test_redirects(location: str, target: str) -> None:
    assert redirect_target("http://h/a/b", location) == target


@pytest.mark.parametrize("location", ["http://[::1", "//u@h/", "javascript:x", "/\r\nx", "http://[v1.x]/", "//[/"])
def test_redirects_refused(location: str) -> None:
    with pytest.raises(UrlError):
        redirect_target("http://h/a/b", location)


def test_a_scheme_is_admitted_if_it_is_known_or_that_of_a_root() -> None:
    roots = Roots(["http://h/", "gopher://h/0/"])
    for url in ("http://h/", "https://x/", "ftp://x/", "file:///x", "gopher://other/"):
        assert roots.admits_scheme(url)
    for url in ("gophers://h/", "javascript://x/", "gophe://x/"):
        assert not roots.admits_scheme(url)
    assert roots.contains("gopher://h/0/page") and not roots.contains("gopher://h/1/page")


def test_a_root_is_no_longer_than_a_url() -> None:
    longest = "http://h/" + "a" * (URL_CHARS - len("http://h/"))
    assert normalise_root(longest) == longest
    for root in (longest + "a", "http://h/" + "é" * 1000):
        with pytest.raises(UrlError, match="a root has at most 4096 characters"):
            normalise_root(root)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "255.249.199.99", "10.0.0.255", "www.example.org"])
@pytest.mark.parametrize("port", ["", ":1", ":8080", ":10000", ":59999", ":64999", ":65499", ":65529", ":65535"])
def test_addresses_and_any_port_are_seen_to_be_normal(host: str, port: str) -> None:
    url = f"http://{host}{port}/a/b.html?c=d"
    assert is_surely_normal(url)
    assert _normalise_slowly(url) == url


@pytest.mark.parametrize(
    "site",
    [
        *("256.0.0.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.004", "1.2.3.4.", "0x7f.0.0.1", "1.2.3.4x.5"),
        *("1.2.3.4:80", "1.2.3.4:65536", "1.2.3.4:99999", "1.2.3.4:100000", "1.2.3.4:08080", "1.2.3.4:0"),
    ],
)
def test_no_other_numbers_are(site: str) -> None:
    assert not is_surely_normal(f"http://{site}/")


def test_whose_a_url_is() -> None:
    owners = [("http://a/x/", 1), ("http://a/", 2), ("https://b/", 3), ("ftp://c/", 4)]
    found = {
        url: owner_of(url, owners)
        for url in (
            "http://a/x/y",
            "https://a/x/y",
            "http://a/z",
            "http://b/",
            "https://b/q",
            "ftp://c/",
            "http://d/",
        )
    }
    assert list(found.values()) == [1, 1, 2, 0, 3, 4, 0]


@given(st.text("/aé%~ #?\u4e16", max_size=10))
def test_what_stands_behind_a_host_is_recoded_as_in_a_url(text: str) -> None:
    url = "http://h/" + text.replace("/.", "/")
    assert "http://h/" + recoded(text.replace("/.", "/")) == normalise(url) or "%" in text


def test_what_cannot_be_encoded_stays() -> None:
    assert recoded("a\ud800#b") == "a\ud800#b"
    assert recoded("é#a b#c") == "%C3%A9#a%20b%23c"


def test_where_a_redirect_outside_led() -> None:
    told = redirect_outside("HTTP://Other.example/a#b").text
    assert redirected_to(told) == "http://other.example/a"
    assert redirected_to("HTTP://Other.example/a") is None
    assert redirected_to(redirect_outside("no url").text) is None
    long = "http://h/" + "a" * (REDIRECT_CHARS - 10)
    assert redirected_to(redirect_outside(long).text) == long
    # It was cut.
    assert redirected_to(redirect_outside(long + "a").text) is None
    assert len(redirect_outside(long * 2).text) == len(redirect_outside(long + "a").text)


def test_a_host_has_253_characters_at_most() -> None:
    host = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert len(host) == 253 and normalise(f"http://{host}/") == normalise(f"http://{host}./") == f"http://{host}/"
    for longer in (f"{host}e", f"{host}e.", f"{host}.."):
        with pytest.raises(UrlError, match="host"):
            normalise(f"http://{longer}/")
    # An international name grows when it is encoded.
    with pytest.raises(UrlError):
        normalise("http://" + ".".join(["é" * 40] * 6) + "/")
    with pytest.raises(UrlError):
        normalise("http://é\u3002\u3002x/")


def test_the_site_of_a_url() -> None:
    assert site_of("http://h:8080/a?b=http://c/") == "http://h:8080/"
    root = "http://h/" + "a" * (URL_CHARS - 9)
    assert normalise_root(root) == root
    assert resolve("http://h/", "a://b") == "a://b" and resolve("http://h/", "a:b") == "http://h/a:b"


def test_addresses_of_version_four_within_six() -> None:
    assert normalise("http://[::FFFF:192.0.2.1]:81/") == "http://[::ffff:c000:201]:81/"
    with pytest.raises(UrlError):
        normalise("http://[::1]x]/")


def test_a_followed_redirect_leads_to_no_longer_a_url_than_there_may_be() -> None:
    long = "http://h/" + "a" * (URL_CHARS - 9)
    assert followed_redirect("http://h/", f"\t {long} ") == long
    with pytest.raises(FetchError, match="more than"):
        followed_redirect("http://h/", long + "a")


def test_a_redirect_may_end_with_a_tilde() -> None:
    assert redirect_target("http://h/", " /a~\t") == "http://h/a~"


def test_the_scheme_of_a_url() -> None:
    assert scheme_of("http://h:81/a:b") == "http" and scheme_of("file:///a") == "file"


def test_a_root_as_long_as_a_url_is_made_normal_too() -> None:
    root = "HTTP://SITE.example/".ljust(URL_CHARS, "a")
    assert normalise_root(root) == root.replace("HTTP://SITE", "http://site")


def test_the_last_dot_segments_leave_a_folder() -> None:
    assert normalise("http://h/a/b/..") == "http://h/a/" and normalise("http://h/a/b/.") == "http://h/a/b/"


def test_urls_inside_begin_with_one_of_the_prefixes() -> None:
    roots = Roots(["http://h/a", "https://k/", "http://h/a"])
    assert roots.prefixes == ("http://h/a", "https://h/a", "https://k/")


@pytest.mark.parametrize(
    ("prefix", "normal"),
    [
        ("HTTP://", "http://"),
        ("ftp://", "ftp://"),
        ("HTTP://SITE.example", "http://site.example/"),
        ("http://site.example/%7Eme", "http://site.example/~me"),
    ],
)
def test_a_prefix_may_be_a_scheme_alone(prefix: str, normal: str) -> None:
    assert normalise_prefix(prefix) == normal


@pytest.mark.parametrize("prefix", ["", "site", "http:", "http:/", "://"])
def test_what_is_no_prefix(prefix: str) -> None:
    with pytest.raises(UrlError):
        normalise_prefix(prefix)


def test_a_host_that_is_no_international_name_is_called_so() -> None:
    with pytest.raises(UrlError) as caught:
        normalise("http://\u00fc..example/")
    assert (caught.value.entry.name, caught.value.detail) == ("bad-url", "the host is no international name")


def test_a_redirect_that_leads_nowhere_is_told_in_two_hundred_characters() -> None:
    with pytest.raises(FetchError) as caught:
        followed_redirect("http://h/", "http://[" + "x" * 500)
    assert caught.value.entry.name == "bad-response"
    assert caught.value.detail.startswith("a redirect to 'http://[xxx") and caught.value.detail.count("x") == 192


def test_a_scheme_may_have_one_letter() -> None:
    assert normalise("A://h") == "a://h/"


def test_a_label_that_begins_a_number_is_no_name() -> None:
    with pytest.raises(UrlError, match="IPv4"):
        normalise("http://h.0x/")


def test_of_where_a_redirect_leads_five_hundred_characters_are_kept() -> None:
    assert len(redirect_outside("http://h/" + "a" * 1000).detail) == REDIRECT_CHARS == 500
