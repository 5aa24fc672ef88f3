"""Which root a secret gives, and where its fetch may lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.registration.sites import (
    FILE_NAME_CHARS,
    file_in,
    follow_on_host,
    host_of,
    hosts_of,
    is_provable,
    name_of,
    port_of,
    site_folder,
)
from lcc.domain.urls import URL_CHARS, Roots, normalise
from lcc.errors import FetchError, UrlError

HOSTS = st.sampled_from(["www.example.org", "EXAMPLE.org", "192.0.2.1", "[2001:db8::1]", "a.b.c", "bücher.example"])
SEGMENTS = st.lists(
    st.one_of(
        st.sampled_from([".", "..", "~me", "%7Eme", "a b", "%2e%2E", "%2F", "x.html", "", "ä", ";", "a&b=c"]),
        st.text(st.characters(exclude_characters="/?#", exclude_categories=["Cs", "Cc"]), max_size=8),
    ),
    max_size=5,
)
NAMES = st.from_regex(r"\Alcc-[0-9a-f]{16}\.txt\Z")


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("http://www.example.org", "http://www.example.org/"),
        (" HTTPS://WWW.example.org:443/ ", "https://www.example.org/"),
        ("http://host/~me", "http://host/~me/"),
        ("http://host/%7eme/", "http://host/~me/"),
        ("http://host/a/index.html", "http://host/a/"),
        ("http://host/a/../b/./", "http://host/b/"),
        ("http://[2001:DB8:0::1]/", "http://[2001:db8::1]/"),
    ],
)
def test_the_folder_that_a_url_means(text: str, folder: str) -> None:
    assert site_folder(text) == folder


@pytest.mark.parametrize(
    "text",
    [
        *("", "www.example.org", "ftp://host/", "file:///etc/", "gopher://host/", "javascript:alert(1)"),
        *("http://user:pass@host/", "http://user@host/", "http://host/?x", "http://host/#x", "http://host/a?b=/"),
        *("http://host:8080/", "https://host:80/", "http://host:443/", "http://host:0/", "http://host:99999/"),
        *("http:///x", "http://127.1/", "http://0x7f.1/", "http://[::1%25eth0]/", "http://ho\0st/", "http://ho\nst/"),
        "http://host/" + "x" * URL_CHARS,
        "http://host/" + "x/../" * (URL_CHARS // 5 - 10),  # shrinks
        "http://host/" + "ä" * (URL_CHARS // 6),  # grows when it is made normal
    ],
)
def test_what_is_no_folder_of_a_site(text: str) -> None:
    with pytest.raises(UrlError):
        site_folder(text)


def test_other_ports_are_for_the_operator_to_allow() -> None:
    assert site_folder("http://host:8080/x/", any_port=True) == "http://host:8080/x/"


@given(st.sampled_from(["http", "https"]), HOSTS, SEGMENTS, NAMES)
def test_a_secret_gives_its_own_folder_and_nothing_above(
    scheme: str, host: str, segments: list[str], name: str
) -> None:
    text = f"{scheme}://{host}/{'/'.join(segments)}"
    try:
        folder = site_folder(text)
    except UrlError:
        return
    url = file_in(folder, name)
    assert normalise(url) == url and len(url) <= URL_CHARS
    assert url[: url.rindex("/") + 1] == folder and is_provable(folder)
    assert site_folder(folder) == folder  # what was understood is understood in the same way again
    roots = Roots([folder])
    assert roots.contains(url)
    # The folder above is not inside, nor a neighbour whose name begins alike.
    above = folder[:-1].rpartition("/")[0] + "/"
    if len(above) > len(f"{scheme}://"):
        assert not roots.contains(above) and not roots.contains(f"{folder[:-1]}x/")
    assert host_of(folder) == host_of(normalise(f"{scheme}://{host}/"))


@pytest.mark.parametrize("root", ["ftp://h/", "file:///x/", "http://h/x", "http://h/?a/", "gopher://h/"])
def test_roots_that_no_proof_gives(root: str) -> None:
    assert not is_provable(root)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://host/a/s.txt", "https://host/a/s.txt"),
        ("/b/s.txt", "http://host/b/s.txt"),
        ("//HOST/s.txt#x", "http://host/s.txt"),
        ("http://host:80/", "http://host/"),
    ],
)
def test_redirects_on_the_host_are_followed(location: str, target: str) -> None:
    assert follow_on_host(False)("http://host/a/s.txt", location) == target


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("http://host/", "http://www.host/"),
        ("http://www.host/", "http://host/"),
        ("http://host/", "http://host.evil/"),
        ("http://host/", "//evil/"),
        ("http://host/", "http://127.0.0.1/"),
        ("http://host/", "ftp://host/"),
        ("http://host/", "file:///etc/passwd"),
        ("http://host/", "http://host:8080/"),
        ("http://host/", "https://host:8443/"),
        ("https://host/", "http://host/"),
        ("http://[2001:db8::1]/", "http://[2001:db8::2]/"),
    ],
)
def test_redirects_elsewhere_are_not(url: str, location: str) -> None:
    with pytest.raises(FetchError) as caught:
        follow_on_host(False)(url, location)
    assert caught.value.entry.name == "redirect-elsewhere"


@pytest.mark.parametrize("location", ["http://user@host/", "http://[/", "\r\nX: y", "http://host/" + "x" * 5000])
def test_redirects_that_are_none(location: str) -> None:
    with pytest.raises(FetchError) as caught:
        follow_on_host(False)("http://host/", location)
    assert caught.value.entry.name == "bad-response"


def test_from_https_to_https_and_from_http_to_https() -> None:
    for url in ("http://host/a", "https://host/a"):
        assert follow_on_host(False)(url, "https://host/b") == "https://host/b"


@pytest.mark.parametrize("start", ["http://other/", "http://host/", "https://host:8443/"])
def test_of_where_it_leads_three_hundred_characters_are_told(start: str) -> None:
    with pytest.raises(FetchError) as caught:
        follow_on_host(False)("https://host/", start + "x" * 1000)
    assert caught.value.detail.count("x") == 300 - len(start)


def test_any_port_is_any_port_of_the_host() -> None:
    follow = follow_on_host(True)
    assert follow("http://host:8080/", "https://host:8443/") == "https://host:8443/"
    with pytest.raises(FetchError):
        follow("http://host:8080/", "http://other:8080/")


@given(HOSTS, HOSTS, st.sampled_from(["http", "https", "ftp"]), SEGMENTS)
def test_no_redirect_leaves_the_host(host: str, other: str, scheme: str, segments: list[str]) -> None:
    url = normalise(f"http://{host}/s.txt")
    try:
        target = follow_on_host(True)(url, f"{scheme}://{other}/{'/'.join(segments)}")
    except FetchError:
        return
    assert host_of(target) == host_of(url) and target.startswith(("http://", "https://"))


def test_ports() -> None:
    assert (port_of("http://h/"), port_of("https://h/"), port_of("http://[::1]:81/"), port_of("http://[::1]/")) == (
        *(80, 443, 81, 80),
    )
    assert port_of("http://h:65535/") == 65535
    assert (FILE_NAME_CHARS, URL_CHARS) == (64, 4096)


def test_names_of_hosts() -> None:
    assert host_of("http://h:81/a?u=http://k/b") == "h:81"
    assert [name_of(f"http://{host}/") for host in ("h", "h:81", "[2001:db8::1]", "[2001:db8::1]:81")] == [
        *("h", "h", "[2001:db8::1]", "[2001:db8::1]"),
    ]
    assert hosts_of(["http://k/", "https://h/a/", "http://h:81/", "file:///a/"]) == ("h", "k")


def test_a_site_has_room_for_the_name_of_its_file() -> None:
    longest = "http://h.example/" + "a" * (URL_CHARS - FILE_NAME_CHARS - 18) + "/"
    assert len(longest) == URL_CHARS - FILE_NAME_CHARS and site_folder(longest) == longest
    for longer in (longest + "/", longest.replace("a/", "\u00e9/")):
        with pytest.raises(UrlError, match="characters"):
            site_folder(longer)
