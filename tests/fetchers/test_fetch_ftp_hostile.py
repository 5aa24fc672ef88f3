"""FTP servers that lie, stall, flood and break off: each ends with its own error, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import pytest_twisted
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet import reactor as global_reactor
from twisted.internet.task import deferLater

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.ftp import FtpFetcher
from lcc.fetchers.ftp_words import data_port, ftp_name, modified_seconds, refusal, size_bytes
from lcc.model import FetchOrder
from tests.support.roles.fetchers import Outcome, Sink, close_clean, collect, stay
from tests.support.waiting import until

from .ftp_server import ScriptedFtp

reactor: Any = global_reactor
REAL = BotConfig(connect_timeout=30.0, idle_timeout=20.0, deadline=60.0, header_bytes_max=4096, body_bytes_max=1000)


class Ftp:
    """A scripted server on loopback with a fetcher."""

    def __init__(self, server: ScriptedFtp, **changes: Any) -> None:
        self.server = server
        self.port = reactor.listenTCP(0, server, interface="127.0.0.1")
        self.fetcher = FtpFetcher(reactor, attrs.evolve(REAL, **changes))

    async def fetch(self, **fields: Any) -> Outcome:
        sink = Sink()
        order = FetchOrder(1, f"ftp://127.0.0.1:{self.port.getHost().port}/a/b", private=True, **fields)
        outcome: Outcome = await collect(self.fetcher.fetch(order, sink, stay), sink)
        return outcome

    async def close(self) -> None:
        await close_clean(self.fetcher)
        await until(lambda: not self.server.open)
        await self.port.stopListening()


# What the server says instead; the error; "" is content.
CASES = [
    ("good", {}, ""),
    ("long greeting", {"greeting": "220-hello / 221 not the end / 220-nor this / no / 220 now"}, ""),
    ("greeting later", {"greeting": "120 wait / 220 now"}, ""),
    ("no password", {"USER": "230 come in"}, ""),
    ("no size", {"SIZE": "500 what?"}, ""),
    ("size that is none", {"SIZE": "213 5 or so"}, ""),
    ("no time", {"MDTM": "213 yesterday"}, ""),
    ("time that cannot be", {"MDTM": "213 20241399999999"}, ""),
    ("no extended", {"EPSV": "500 what?"}, ""),
    ("end told before the data", {"RETR": "150 x / 226 done / DATA hello / END"}, ""),
    ("busy", {"greeting": "421 too many"}, "login-refused"),
    ("refused", {"PASS": "530 no"}, "login-refused"),
    ("account", {"PASS": "332 account?"}, "login-refused"),
    ("no binary", {"TYPE": "504 no"}, "login-refused"),
    ("cut at once", {"greeting": "CUT"}, "connection-lost"),
    ("cut later", {"MDTM": "CUT"}, "early-eof"),
    ("closes", {"MDTM": "421 going down"}, "server-busy"),
    ("closes later", {"SIZE": "421 going down"}, "server-busy"),
    ("cut at the transfer", {"RETR": "150 x / CUT"}, "early-eof"),
    ("silent", {"greeting": "SILENT"}, "idle-timeout"),
    ("silent later", {"SIZE": "SILENT"}, "idle-timeout"),
    ("another protocol", {"greeting": "HTTP/1.1 400 Bad Request / SILENT"}, "idle-timeout"),
    ("code of no kind", {"USER": "999 hm"}, "bad-response"),
    ("endless greeting", {"greeting": "BABBLE"}, "headers-too-long"),
    ("endless line", {"greeting": "220 " + "x" * 5000}, "headers-too-long"),
    ("too much", {"TYPE": "200 binary / 200 and more / 200 and more"}, "bad-response"),
    ("good-bye", {"EPSV": "SILENT", "SIZE": "213 5 / 421 timeout"}, "server-busy"),
    ("no port", {"EPSV": "229 guess"}, "bad-response"),
    ("impossible port", {"EPSV": "229 (|||99999|)"}, "address-forbidden"),
    ("mail port", {"EPSV": "229 (|||25|)"}, "address-forbidden"),
    ("mail port, passively", {"EPSV": "500 no", "PASV": "227 (127,0,0,1,0,25)"}, "address-forbidden"),
    ("impossible passive", {"EPSV": "500 no", "PASV": "227 (127,0,0,1,999,999)"}, "bad-response"),
    ("nobody at the port", {"EPSV": "229 (|||1025|)"}, "connect-refused"),
    ("absent", {"RETR": "550 no such file"}, "http-404"),
    ("later", {"RETR": "450 busy"}, "server-busy"),
    ("never", {"RETR": "553 that name"}, "server-refused"),
    ("broken off", {"RETR": "150 x / DATA hel / END / 426 sorry"}, "server-busy"),
    ("too short", {"RETR": "150 x / DATA hel / 226 done"}, "early-eof"),
    ("too long", {"RETR": "150 x / DATA hello world / 226 done"}, "early-eof"),
    ("reset", {"RETR": "150 x / DATA hel / RESET"}, "early-eof"),
    ("told too large", {"SIZE": "213 1001"}, "body-too-long"),
    ("endless", {"SIZE": "500 no", "RETR": "150 x / FLOOD"}, "body-too-long"),
    ("stalls", {"RETR": "150 x / DATA hel"}, "idle-timeout"),
    ("never ends", {"RETR": "150 x / 226 done"}, "idle-timeout"),
]


@pytest.mark.parametrize(("answers", "error"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest_twisted.ensureDeferred
async def test_what_a_server_does(answers: dict[str, str], error: str) -> None:
    ftp = Ftp(ScriptedFtp(**answers), idle_timeout=0.3 if error == "idle-timeout" else 20.0)
    outcome = await ftp.fetch()
    assert outcome.error == error
    assert len(outcome.content) <= 1000
    if not error:
        assert outcome.content == b"hello"
        assert "RETR a/b" in ftp.server.heard
    await ftp.close()


@pytest.mark.parametrize("answers", [{"SIZE": "SILENT"}, {"RETR": "150 x / DATA hel"}, {"greeting": "SILENT"}])
@pytest_twisted.ensureDeferred
async def test_the_deadline_ends_it_wherever_it_is(answers: dict[str, str]) -> None:
    ftp = Ftp(ScriptedFtp(**answers), deadline=0.3)
    assert (await ftp.fetch()).error == "deadline"
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_a_server_that_speaks_while_nobody_asks_is_left() -> None:
    server = ScriptedFtp(RETR="150 x / DATA hello / 226 done")
    ftp = Ftp(server)
    assert (await ftp.fetch()).content == b"hello"
    server.answers["RETR"] = "150 x / DATA hello / 226 done / 421 good-bye"
    assert (await ftp.fetch()).content == b"hello"
    assert server.controls == 1
    await deferLater(reactor, 0.1)
    server.answers["RETR"] = "150 x / DATA hello / 226 done"
    assert (await ftp.fetch()).content == b"hello"
    assert server.controls == 2
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_a_fetch_that_begins_in_the_turn_in_which_a_server_says_good_bye_has_another_connection() -> None:
    """The transport tells that it is closed a turn later."""
    ftp = Ftp(ScriptedFtp())
    assert (await ftp.fetch()).content == b"hello"
    [control] = ftp.fetcher._idle.values()
    control.dataReceived(b"421 Timeout.\r\n")
    outcome = await ftp.fetch()
    assert not outcome.error and outcome.content == b"hello" and ftp.server.controls == 2
    await ftp.close()


class _Forgetful(ScriptedFtp):
    """Gives a kept connection up when it is used again; a new one works."""

    def buildProtocol(self, address: Any) -> Any:
        self.answers.update(MDTM="213 20240102030405")
        return super().buildProtocol(address)


@pytest.mark.parametrize(
    ("answer", "error"),
    [("CUT", "early-eof"), ("421 Timeout.", "server-busy"), ("421-Idle / 421 Timeout.", "server-busy")],
)
@pytest_twisted.ensureDeferred
async def test_a_kept_connection_that_ends_when_it_is_used_is_replaced_once(answer: str, error: str) -> None:
    server = _Forgetful()
    ftp = Ftp(server)
    assert (await ftp.fetch()).content == b"hello"
    server.answers["MDTM"] = answer
    assert (await ftp.fetch()).content == b"hello"
    assert server.controls == 2
    # One that has answered is not: nobody knows what it has done.
    server.answers["SIZE"] = answer
    assert (await ftp.fetch()).error == error
    assert server.controls == 2
    await ftp.close()


@pytest_twisted.ensureDeferred
async def test_a_kept_connection_is_closed_after_its_time() -> None:
    ftp = Ftp(ScriptedFtp(), keepalive=0.1)
    assert (await ftp.fetch()).content == b"hello"
    for _ in range(1000):
        if not ftp.server.open:
            break
        await deferLater(reactor, 0.01)
    assert not ftp.server.open and ftp.server.heard[-1] == "QUIT"
    await ftp.close()


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("ftp://h/a", "h", 21, "a"),
        ("ftp://H:2121/a/b%20c/d;type=I", "h", 2121, "a/b c/d"),
        ("ftp://[::1]:9/a", "[::1]", 9, "a"),
        ("ftp://h/%C3%BC?x#fragment", "h", 21, "\xc3\xbc?x"),
        ("ftp://h/a%25b..c/...", "h", 21, "a%b..c/..."),
    ],
)
def test_what_a_url_names(url: str, host: str, port: int, path: str) -> None:
    assert ftp_name(url) == (host, port, path)


@pytest.mark.parametrize(
    "url",
    [
        "http://h/a",
        "ftp://h",
        "ftp://h/",
        "ftp://h/pub/",
        "ftp://u@h/a",
        "ftp://h:0/a",
        "ftp://h:65536/a",
        "ftp://h/a;type=a",
        "ftp://h/a;type=d",
        "ftp://h/a%0d%0aDELE%20b",
        "ftp://h/a\r\nDELE b",
        "ftp://h/a%00b",
        "ftp://h/%2Fetc/passwd",
        "ftp://h/pub/..%2F..%2Fetc/passwd",
        "ftp://h/pub/../x",
        "ftp://h/pub/%2e%2e/x",
    ],
)
def test_what_names_nothing(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        ftp_name(url)
    assert caught.value.entry.name == "scheme-unsupported"


@given(st.text(max_size=60))
def test_no_url_makes_two_commands_or_leads_upwards(tail: str) -> None:
    try:
        name = ftp_name(f"ftp://h/pub/{tail}")
    except FetchError:
        return
    assert not set(name.path) & {"\r", "\n", "\0"}
    assert name.path.startswith("pub/") and ".." not in name.path.split("/")


@given(st.text(max_size=40))
def test_replies_are_read_or_refused(text: str) -> None:
    for reply in (text, f"213 {text}", f"229 ({text})", f"227 ({text})"):
        modified_seconds(reply)
        size_bytes(reply)
        refusal([reply], login=False)
        try:
            assert 1024 <= data_port(reply) < 65536
        except FetchError:
            pass
