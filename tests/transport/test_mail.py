"""Mails, handed to a mail server over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes
from email.policy import SMTP
from pathlib import Path
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet import reactor

from lcc.config import MailConfig
from lcc.transport.mail import Mail, PostOffice, compose
from lcc.transport.smtp import MailFailed
from tests.support.certificates import Authority
from tests.support.logs import LoggedErrors
from tests.support.servers.mail import MailServer

MAIL = Mail("you@example.org", "A subject", "Dear you,\n.\n..dots\nümlaut " + "x" * 2000 + "\n")
PASSWORD = "s3cret-canary"


@attrs.frozen
class World:
    """Makes mail servers, and post offices for them."""

    folder: Path
    servers: list[MailServer] = attrs.field(factory=list)

    def files(self) -> tuple[Path, Path]:
        key, certificate, _ = Authority().write(self.folder, "localhost")
        return key, certificate

    def server(self, *args: Any, **kwargs: Any) -> MailServer:
        self.servers.append(MailServer(*args, **kwargs))
        return self.servers[-1]

    def office(self, server: MailServer, security: str = "starttls", **more: Any) -> PostOffice:
        (self.folder / "password").write_text(PASSWORD + "\nmore\n")
        named: dict[str, Any] = {"host": "localhost", "sender": "lcc@example.net", "timeout": 20.0, "user": "lcc"}
        named |= {"password_file": "password", "authorities": "" if security == "none" else "authority.pem"}
        settings = MailConfig(port=server.port, security=security, **(named | more))
        return PostOffice(
            settings,
            reactor,
            lambda: 1_700_000_000,
            lambda: "0123456789abcdef",
            lambda p: (self.folder / p).read_text(),
        )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for server in made.servers:
        server.stop()


@pytest.mark.parametrize("security", ["starttls", "tls", "none"])
@pytest.mark.parametrize("ways", ["PLAIN LOGIN", "LOGIN", "GSSAPI LOGIN"])
@pytest_twisted.ensureDeferred
async def test_a_mail_is_taken_as_it_is(world: World, security: str, ways: str) -> None:
    files = None if security == "none" else world.files()
    server = world.server(files, immediate=security == "tls", ways=ways)
    await world.office(server, security).deliver(MAIL)
    (taken,) = server.taken
    assert taken.secured is (security != "none")
    assert (taken.sender, taken.recipients) == ("lcc@example.net", ["you@example.org"])
    assert (taken.user, taken.password) == ("lcc", PASSWORD)
    message: Any = message_from_bytes(taken.message, policy=SMTP)
    assert (message["From"], message["To"], message["Subject"]) == ("lcc@example.net", MAIL.to, MAIL.subject)
    assert message["Message-ID"] == "<0123456789abcdef@example.net>" and message["Auto-Submitted"] == "auto-generated"
    assert message.get_content().replace("\r\n", "\n") == MAIL.text
    assert max(map(len, taken.message.splitlines())) < 1000


@pytest_twisted.ensureDeferred
async def test_without_a_user_nobody_logs_in(world: World) -> None:
    server = world.server()
    await world.office(server, "none", user="").deliver(MAIL)
    assert server.taken[0].user == "" and "AUTH" not in server.heard


@pytest_twisted.ensureDeferred
async def test_nothing_secret_is_said_without_a_verified_server(world: World) -> None:
    """No TLS, another name, another authority, words before the handshake: neither mail nor password is sent."""
    trusted = world.files()
    for name, server in {
        "no TLS": world.server(),
        "injected": world.server(trusted, says={"STARTTLS": b"220 go on\r\n250 AUTH PLAIN"}),
        "refused": world.server(trusted, says={"STARTTLS": b"454 not now"}),
    }.items():
        with pytest.raises(MailFailed):
            await world.office(server).deliver(MAIL)
        assert not server.taken and not {"AUTH", "MAIL", "DATA"} & set(server.heard), name
    for security in ("starttls", "tls"):
        server = world.server(trusted, immediate=security == "tls")
        wrong_name = world.office(server, security, host="127.0.0.1")
        with pytest.raises(MailFailed):
            await wrong_name.deliver(MAIL)
        machine = world.office(server, security, authorities="")
        with pytest.raises(MailFailed):
            await machine.deliver(MAIL)
        assert not server.taken and "AUTH" not in server.heard


@pytest.mark.parametrize(
    ("command", "says", "text"),
    [
        ("CONNECT", b"554 go away", "the connection was refused by the mail server: 554 go away"),
        ("EHLO", b"502 no", "EHLO was refused"),
        ("AUTH", b"535 wrong password", "the login was refused by the mail server: 535"),
        ("MAIL", b"550 no", "the sender was refused"),
        ("RCPT", b"550-no\r\n550 such user", "the recipient was refused by the mail server: 550 no such user"),
        ("DATA", b"554 no", "DATA was refused"),
        ("END", b"554 spam", "the mail was refused by the mail server: 554 spam"),
        ("CONNECT", b"HTTP/1.1 400 Bad Request", "what is no SMTP"),
        ("CONNECT", b"220-x\r\n" * 200 + b"220 x", "what is no SMTP"),
        ("CONNECT", b"220 " + b"x" * 10_000, "too long"),
        ("MAIL", b"250 ok\r\n250 and more", "without being asked: 250 and more"),
        ("EHLO", b"250 AUTH GSSAPI", "lets nobody log in"),
        ("RCPT", b"silence", "it took more than 2.5 seconds"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_goes_wrong_is_said_without_secrets(world: World, command: str, says: bytes, text: str) -> None:
    server = world.server(says={command: says})
    office = world.office(server, "none", **({"timeout": 2.5} if says == b"silence" else {}))
    with pytest.raises(MailFailed) as caught:
        await office.deliver(MAIL)
    assert text in str(caught.value) and PASSWORD not in repr(caught.value)
    assert not server.taken


@pytest_twisted.ensureDeferred
async def test_files_and_servers_that_are_not_there(world: World) -> None:
    server = world.server()
    with pytest.raises(MailFailed, match="password_file"):
        await world.office(server, "none", password_file="nowhere").deliver(MAIL)
    (world.folder / "authority.pem").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    with pytest.raises(MailFailed, match="authorities"):
        await world.office(server).deliver(MAIL)
    server.stop()
    world.servers.clear()
    with pytest.raises(MailFailed, match="cannot be reached"):
        await world.office(server, "none").deliver(MAIL)


@pytest_twisted.ensureDeferred
async def test_sending_tells_the_log_only(world: World, logged_errors: LoggedErrors) -> None:
    good, bad = world.server(), world.server(says={"RCPT": b"550 no"})
    for server in (good, bad):
        office = world.office(server, "none")
        for _ in range(10):
            office.send(MAIL)
        await office.close()
    assert len(good.taken) == 10 and not bad.taken


def test_no_header_can_be_smuggled_in() -> None:
    with pytest.raises(ValueError, match=r"newline|linefeed"):
        compose(Mail("a@b\r\nBcc: c@d", "x", "y"), "l@x", 0, "1")
