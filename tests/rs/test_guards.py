"""The proof against sites, and people, that mean no good: each guard of doc/registration.md."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from tests.support.browser import Browser, Reply
from tests.support.certificates import Authority
from tests.support.servers.web_site import WebSite
from tests.support.waiting import until

from .kit import Office

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


async def ask(browser: Browser, url: str, **more: Any) -> Any:
    """Step one over the API."""
    reply = await browser.api("", {"contact": "a@b", "site": url, **more})
    assert reply.status == 201, reply.body
    return reply.json()


async def check(browser: Browser, given: Any) -> Reply:
    """Step two over the API."""
    return await browser.api(f"/{given['ticket']}/check", {})


def path_of(given: Any) -> str:
    return "/" + given["urls"][0].partition("://")[2].partition("/")[2]


def not_quite(secret: str) -> list[str]:
    """What holds the secret, or nearly."""
    return [
        *(secret[:-1], secret + "x", "x" + secret, " " + secret, f"<p>{secret}</p>", f"{secret}\n{secret}"),
        *(secret.upper() + "A", "", "\n", "\0" * 20, "\x1b[31m\xff"),
    ]


@pytest_twisted.ensureDeferred
async def test_the_whole_content_must_be_the_secret(office: Office, site: WebSite) -> None:
    given = await ask(office.browser(), site.url)
    for content in not_quite(given["secret"]):
        site.files[path_of(given)] = content.encode("latin-1")
        reply = await check(office.browser(), given)
        told = reply.json()
        assert (reply.status, told["name"], told["code"]) == (409, "other-content", 1602), content
        assert told["url"] == given["urls"][0] and told["text"].isprintable()
    for encoding in ("utf-16-le", "utf-16-be"):  # nothing says that it is one
        site.files[path_of(given)] = given["secret"].encode(encoding)
        assert (await check(office.browser(), given)).status == 409
    site.files[path_of(given)] = given["secret"].encode() + b" \t\r\n\n"
    assert (await check(office.browser(), given)).json()["state"] == "done"


@pytest.mark.parametrize(
    ("mark", "encoding"), [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
)
@pytest_twisted.ensureDeferred
async def test_files_of_windows_are_understood(office: Office, site: WebSite, mark: bytes, encoding: str) -> None:
    given = await ask(office.browser(), site.url)
    for wrong in not_quite(given["secret"]):
        site.files[path_of(given)] = mark + wrong.encode(encoding)
        assert (await check(office.browser(), given)).json()["name"] == "other-content", wrong
    site.files[path_of(given)] = mark + f"{given['secret']}\r\n".encode(encoding)
    assert (await check(office.browser(), given)).json()["state"] == "done"


ANSWERS: list[tuple[tuple[int, dict[str, str], bytes], str]] = [
    ((404, {}, b""), "http-404"),
    ((500, {}, b"secret"), "http-500"),
    ((204, {}, b""), "http-204"),
    ((200, {}, b"x" * 2000), "body-too-long"),
    ((200, {"Content-Length": "100000000"}, b""), "body-too-long"),
    ((200, {"X-Long": "x" * 20_000}, b""), "headers-too-long"),
    ((200, {"Content-Encoding": "x-own"}, b"x"), "bad-coding"),
    ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 100_000)), "body-too-long"),
    ((302, {"Location": "http://127.0.0.2:{port}/"}, b""), "redirect-elsewhere"),
    ((301, {"Location": "http://localhost:{port}/"}, b""), "redirect-elsewhere"),
    ((307, {"Location": "file:///etc/passwd"}, b""), "redirect-elsewhere"),
    ((302, {"Location": "http://u:p@127.0.0.1:{port}/"}, b""), "bad-response"),
    ((302, {"Location": "*"}, b""), "redirect-loop"),
    ((302, {}, b""), "http-302"),
]


@pytest_twisted.ensureDeferred
async def test_answers_that_prove_nothing(office: Office, site: WebSite) -> None:
    given = await ask(office.browser(), site.url)
    path = path_of(given)
    site.files["/"] = given["secret"].encode()  # where no redirect must find it
    for (status, headers, content), name in ANSWERS:
        headers = {key: value.replace("{port}", str(site.port)).replace("*", path) for key, value in headers.items()}
        site.files[path] = (status, headers, content)
        reply = await check(office.browser(), given)
        assert (reply.status, reply.json()["name"]) == (409, name)
    assert (await office.browser().api(f"/{given['ticket']}")).json()["state"] == "asked"


@pytest_twisted.ensureDeferred
async def test_redirects_on_the_host_are_followed(office: Office, site: WebSite) -> None:
    given = await ask(office.browser(), site.url)
    site.files[path_of(given)] = (301, {"Location": "/elsewhere"}, b"")
    site.files["/elsewhere"] = given["secret"].encode()
    done = (await check(office.browser(), given)).json()
    assert (done["state"], done["roots"]) == ("done", [site.url])


@pytest_twisted.ensureDeferred
async def test_from_http_to_https_but_never_back(
    open_office: Callable[..., Office], site: WebSite, tmp_path: Path
) -> None:
    key, certificate, trusted = Authority().write(tmp_path, "localhost")
    secure = WebSite(key, certificate)
    plain, safe = f"http://localhost:{site.port}/", f"https://localhost:{secure.port}/"
    office = open_office(beyond=f'[bot]\nextra_roots = "{trusted}"')
    try:
        given = await ask(office.browser(), plain)
        secure.files[path_of(given)] = given["secret"].encode()
        site.files[path_of(given)] = (301, {"Location": safe + given["file"]}, b"")
        assert (await check(office.browser(), given)).json()["state"] == "done"
        back = await ask(office.browser(), safe)
        site.files[path_of(back)] = back["secret"].encode()
        secure.files[path_of(back)] = (301, {"Location": plain + back["file"]}, b"")
        assert (await check(office.browser(), back)).json()["name"] == "redirect-elsewhere"
    finally:
        secure.stop()


@pytest_twisted.ensureDeferred
async def test_a_certificate_that_cannot_be_verified_proves_nothing(office: Office, tmp_path: Path) -> None:
    key, certificate, _ = Authority().write(tmp_path, "localhost")
    secure = WebSite(key, certificate)
    try:
        given = await ask(office.browser(), f"https://localhost:{secure.port}/")
        secure.files[path_of(given)] = given["secret"].encode()
        assert (await check(office.browser(), given)).json()["name"] == "tls-failed"
    finally:
        secure.stop()


PRIVATE = ("127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]", "0.0.0.0")


@pytest_twisted.ensureDeferred
async def test_private_addresses_are_refused(open_office: Callable[..., Office], site: WebSite) -> None:
    office = open_office(allow_private=False)
    for host in PRIVATE:
        given = await ask(office.browser(), f"http://{host}:{site.port}/")
        site.files[path_of(given)] = given["secret"].encode()
        told = (await check(office.browser(), given)).json()
        assert (told["name"], told["code"]) == ("address-forbidden", 1305), host
    assert site.asked == []


@pytest_twisted.ensureDeferred
async def test_an_answer_tells_nothing_of_internal_names(open_office: Callable[..., Office], site: WebSite) -> None:
    """Neither the address of one, nor that there is one."""
    office = open_office(allow_private=False)
    answers = []
    with capturedLogs() as logged:
        for host in ("localhost", "nowhere.invalid"):
            given = await ask(office.browser(), f"http://{host}:{site.port}/")
            told = (await check(office.browser(), given)).json()
            assert not {"127.0.0.1", "::1", "private"} & set(re.split(r"[ ;,]", told["text"] + " " + told["error"]))
            answers.append((told["name"], told["code"], told["text"]))
    assert answers[0] == answers[1]
    said = [formatEvent(event) for event in logged]
    assert any("localhost" in line and "is private" in line for line in said)  # the operator sees it


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"])
@pytest_twisted.ensureDeferred
async def test_where_private_sites_register_metadata_stays_refused(office: Office, site: WebSite, host: str) -> None:
    given = await ask(office.browser(), f"http://{host}:{site.port}/")
    assert (await check(office.browser(), given)).json()["name"] == "address-forbidden"


@pytest_twisted.ensureDeferred
async def test_what_is_no_address_of_a_web_server_stays_refused(office: Office, site: WebSite) -> None:
    given = await ask(office.browser(), f"http://224.0.0.1:{site.port}/")
    assert (await check(office.browser(), given)).json()["name"] == "address-forbidden"


@pytest_twisted.ensureDeferred
async def test_other_ports_are_refused(open_office: Callable[..., Office], site: WebSite) -> None:
    office = open_office(any_port=False)
    reply = await office.browser().api("", {"contact": "a@b", "site": site.url})
    assert reply.status == 400 and "ports" in reply.json()["faults"]["site"]


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Set, at the latest at the end of the test, it lets those answer that hang."""
    release = threading.Event()
    yield release
    release.set()


def hang_until(release: threading.Event) -> Callable[[str], tuple[int, dict[str, str], bytes]]:
    def hang(_path: str) -> tuple[int, dict[str, str], bytes]:
        release.wait()
        return 404, {}, b""

    return hang


@pytest_twisted.ensureDeferred
async def test_a_slow_site_is_given_up(
    open_office: Callable[..., Office], site: WebSite, release: threading.Event
) -> None:
    office = open_office("deadline = 0.5")
    given = await ask(office.browser(), site.url)
    site.files["*"] = hang_until(release)
    reply = await check(office.browser(), given)
    assert reply.status == 409 and reply.json()["name"] in ("deadline", "idle-timeout")


@pytest_twisted.ensureDeferred
async def test_while_others_are_checked_one_has_to_come_again(
    open_office: Callable[..., Office], site: WebSite, release: threading.Event
) -> None:
    office = open_office("checks_at_once = 1")
    given = await ask(office.browser(), site.url)
    site.files["*"] = hang_until(release)
    slow = Deferred.fromCoroutine(check(office.browser(), given))
    await until(lambda: site.asked)
    busy = await check(office.browser(), given)
    assert busy.status == 503 and int(busy.headers["retry-after"]) > 0
    release.set()
    assert (await slow).json()["name"] == "http-404"


@pytest_twisted.ensureDeferred
async def test_who_asks_too_often_is_throttled_by_address(open_office: Callable[..., Office]) -> None:
    office = open_office("asks_max = 3\nproxy = true")
    here, there = office.browser(X_Forwarded_For="192.0.2.1"), office.browser(X_Forwarded_For="192.0.2.2")
    for number in range(3):
        await ask(here, f"http://{number}.example/")
    reply = await here.api("", {"contact": "a@b", "site": "http://3.example/"})
    assert reply.status == 429 and 0 < int(reply.headers["retry-after"]) <= 3600
    await ask(there, "http://3.example/")
    # What a client says of itself does not count, but what the web server in front adds behind it.
    liar = office.browser(X_Forwarded_For="198.51.100.7, 192.0.2.1")
    assert (await liar.api("", {"contact": "a@b", "site": "http://4.example/"})).status == 429
    # Pages are the same.
    form = await here.get("/register")
    page = await here.submit(form, contact="a@b", site="http://5.example/")
    assert page.status == 429 and "try again later" in page.text("fault-title")


@pytest_twisted.ensureDeferred
async def test_a_client_cannot_choose_its_address(open_office: Callable[..., Office]) -> None:
    office = open_office("asks_max = 2")
    for number in range(2):
        await ask(office.browser(X_Forwarded_For=f"192.0.2.{number}"), f"http://{number}.example/")
    reply = await office.browser(X_Forwarded_For="192.0.2.9").api("", {"contact": "a@b", "site": "http://9.example/"})
    assert reply.status == 429


@pytest_twisted.ensureDeferred
async def test_a_site_is_asked_for_not_too_often(open_office: Callable[..., Office]) -> None:
    office = open_office("asks_max = 2\nproxy = true")
    for number in range(2):
        await ask(office.browser(X_Forwarded_For=f"192.0.2.{number}"), f"http://www.example/{number}/")
    other = office.browser(X_Forwarded_For="192.0.2.9")
    # Whatever the port: who has a host has all of them.
    for url in ("https://www.example/", "http://www.example:81/"):
        assert (await other.api("", {"contact": "a@b", "site": url})).status == 429
    await ask(other, "http://example/")


@pytest_twisted.ensureDeferred
async def test_a_site_is_fetched_from_not_too_often(open_office: Callable[..., Office], site: WebSite) -> None:
    office = open_office("checks_max = 2\nproxy = true")
    one, two, three = (office.browser(X_Forwarded_For=f"192.0.2.{number}") for number in range(3))
    given = await ask(one, site.url)
    for browser in (one, two):
        assert (await check(browser, given)).status == 409
    assert (await check(three, given)).status == 429
    assert len(site.asked) == 2


@pytest_twisted.ensureDeferred
async def test_a_stranger_does_not_use_up_what_a_site_may(open_office: Callable[..., Office], site: WebSite) -> None:
    office = open_office("asks_max = 4\nchecks_max = 4\nproxy = true")
    stranger, owner = (office.browser(X_Forwarded_For=f"192.0.2.{number}") for number in range(2))
    for _ in range(2):
        given = await ask(stranger, site.url)
        assert (await check(stranger, given)).status == 409
    refused = await stranger.api("", {"contact": "a@b", "site": site.url})
    assert refused.status == (await check(stranger, given)).status == 429
    given = await ask(owner, site.url)
    assert (await check(owner, given)).status == 409


@pytest_twisted.ensureDeferred
async def test_tickets_cannot_be_guessed(office: Office, site: WebSite) -> None:
    given = await ask(office.browser(), site.url)
    number, key = given["ticket"].split("-")
    texts = set()
    for ticket in (
        f"{number}-{'0' * 32}",
        f"{int(number) + 1}-{key}",
        f"{number}-{key[:-1]}",
        f"{number}-{key}0",
        f"{number}-{key.upper()}",
        number,
        given["secret"],
        f"{number}-{given['secret']}",
        f"9999999999-{key}",
        "1-%00",
    ):
        if ticket == given["ticket"]:
            continue
        for reply in (await office.browser().api(f"/{ticket}"), await office.browser().api(f"/{ticket}/check", {})):
            assert reply.status == 404, ticket
            texts.add(reply.body)
    assert len(texts) == 1 and site.asked == []


@pytest_twisted.ensureDeferred
async def test_no_secret_stands_in_the_database_or_in_the_log(
    office: Office, site: WebSite, backend: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    from twisted.logger import LogEvent, formatEvent, globalLogPublisher

    lines: list[str] = []

    def keep(event: LogEvent) -> None:
        lines.append(f"{formatEvent(event)} {event!r}")

    globalLogPublisher.addObserver(keep)
    try:
        given = await ask(office.browser(), site.url)
        await check(office.browser(), given)
        site.files[path_of(given)] = given["secret"].encode()
        await check(office.browser(), given)
    finally:
        globalLogPublisher.removeObserver(keep)
    await office.stop()
    office.services.startService()
    stored = b"".join(path.read_bytes() for path in backend.home.iterdir() if path.is_file())
    assert given["file"].encode() in stored
    for secret in (given["secret"], given["password"], given["ticket"].split("-")[1]):
        assert secret.encode() not in stored
        assert not [line for line in lines if secret in line]
    assert [line for line in lines if " requested" in line] and [line for line in lines if " proven: " in line]
