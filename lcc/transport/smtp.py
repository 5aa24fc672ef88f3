"""Handing one mail to a mail server: SMTP submission (RFC 6409) over TLS.

Not twisted.mail's client: that one imports the global reactor, and keeps what was said in its exceptions, passwords
included.  Here no exception has anything in it that this end has said.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.ssl import Certificate, optionsForClientTLS, trustRootFromCertificates
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from lcc.config import MailConfig
from lcc.numbers import parse_number

REPLY_LINES_MAX = 100
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL).findall
_REPLY = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?").fullmatch


class MailFailed(Exception):
    """The mail server did not take a mail."""


def _tls_options(host: str, authorities: str) -> IOpenSSLClientConnectionCreator:
    """What verifies the mail server.

    :raises MailFailed: these authorities cannot be used.
    """
    if not authorities:
        return optionsForClientTLS(host)
    try:
        trusted = [Certificate.loadPEM(pem) for pem in _PEM(authorities)]
    except Exception as error:  # whatever the library says of it
        raise MailFailed(f"mail.authorities cannot be used: {error!r}") from None
    return optionsForClientTLS(host, trustRoot=trustRootFromCertificates(trusted))


class _Dialogue(LineOnlyReceiver):
    """One line to the server, one reply from it."""

    delimiter = b"\r\n"
    MAX_LENGTH = 4096
    _buffer: bytes

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._replies: list[tuple[int, list[str]]] = []
        self._reply: Deferred[tuple[int, list[str]]] | None = None
        self._over: Exception | None = None

    def lineReceived(self, line: bytes) -> None:
        match = _REPLY(line)
        if match is None or len(self._lines) >= REPLY_LINES_MAX:
            self._end(MailFailed("the mail server says what is no SMTP"))
            return
        self._lines.append((match[3] or b"").decode("utf-8", "replace"))
        if match[2] == b"-":
            return
        lines, self._lines = self._lines, []
        self._replies.append((parse_number(match[1].decode("ascii"), 599), lines))

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        # All lines of this piece are looked at before anything is done about the first: what somebody in between has
        # put behind the answer to STARTTLS must not count as said behind the handshake.
        replies, self._replies = self._replies, []
        if not replies or self._over is not None:
            return
        reply, self._reply = self._reply, None
        if reply is None or len(replies) > 1:
            self._reply = reply
            code, lines = replies[-1]
            self._end(MailFailed(f"the mail server says, without being asked: {code} {' '.join(lines)}"[:300]))
        else:
            reply.callback(replies[0])

    def lineLengthExceeded(self, line: bytes) -> None:
        self._end(MailFailed("the mail server sends lines that are too long"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end(MailFailed(f"the connection to the mail server was lost: {reason.getErrorMessage()}"))

    async def hear(self, what: str, *good: int) -> list[str]:
        """The next reply.

        :param what: it is the answer to.
        :raises MailFailed: it has another code than these.
        """
        if self._over is not None:
            raise self._over
        self._reply = Deferred()
        code, lines = await self._reply
        if code not in good:
            raise MailFailed(f"{what} was refused by the mail server: {code} {' '.join(lines)}"[:500])
        return lines

    async def say(self, line: bytes, what: str, *good: int) -> list[str]:
        """Send a line; the reply, as :meth:`hear`."""
        self._transport().write(line + b"\r\n")
        return await self.hear(what, *good)

    async def secure(self, options: Any) -> None:
        """Speak TLS from now on."""
        await self.say(b"STARTTLS", "STARTTLS", 220)
        if self._buffer:
            # Somebody in between could have put words before the handshake that count as said behind it.
            raise MailFailed("the mail server goes on talking before TLS has begun")
        self._transport().startTLS(options)

    def abort(self) -> None:
        """Cut the connection."""
        self._transport().abortConnection()

    def leave(self) -> None:
        """Say good-bye; nobody waits for the answer."""
        self._over = MailFailed("it is over")
        self._transport().write(b"QUIT\r\n")
        self._transport().loseConnection()

    def _transport(self) -> Any:
        return self.transport

    def _end(self, error: MailFailed) -> None:
        if self._over is None:
            self._over = error
            self._transport().abortConnection()
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.errback(error)


async def hand_over(
    reactor: Any, settings: MailConfig, password: str, authorities: str, recipients: Collection[str], message: bytes
) -> None:
    """Hand one mail to the mail server; it has taken it when this is over.  Cancelling it cuts the connection.

    :param password: of ``settings.user``.
    :param authorities: certificates (PEM) to trust; empty: those of the machine.
    :param recipients: checked addresses.
    :param message: with its header; any line ends.
    :raises MailFailed: it could not be.
    """
    options = _tls_options(settings.host, authorities)
    endpoint: Any = HostnameEndpoint(reactor, settings.host.encode("idna"), settings.port)
    if settings.security == "tls":
        endpoint = wrapClientTLS(options, endpoint)
    try:
        dialogue: _Dialogue = await endpoint.connect(_Factory.forProtocol(_Dialogue))
    except MailFailed:
        raise
    except Exception as error:
        raise MailFailed(f"{settings.host} port {settings.port} cannot be reached: {error}"[:300]) from None
    try:
        await _converse(dialogue, settings, password, recipients, message, options)
    except BaseException:
        dialogue.abort()
        raise
    dialogue.leave()


async def _converse(
    dialogue: _Dialogue,
    settings: MailConfig,
    password: str,
    recipients: Collection[str],
    message: bytes,
    options: Any,
) -> None:
    await dialogue.hear("the connection", 220)
    name = settings.sender.rpartition("@")[2].encode("ascii", "replace")
    able = await dialogue.say(b"EHLO " + name, "EHLO", 250)
    if settings.security == "starttls":
        await dialogue.secure(options)
        able = await dialogue.say(b"EHLO " + name, "EHLO", 250)
    if settings.user:
        await _log_in(dialogue, settings.user, password, able)
    await dialogue.say(b"MAIL FROM:<%s>" % settings.sender.encode("ascii"), "the sender", 250)
    for recipient in recipients:
        await dialogue.say(b"RCPT TO:<%s>" % recipient.encode("ascii"), "the recipient", 250, 251)
    await dialogue.say(b"DATA", "DATA", 354)
    lines = [b"." + line if line.startswith(b".") else line for line in message.splitlines()]
    await dialogue.say(b"\r\n".join([*lines, b"."]), "the mail", 250)


async def _log_in(dialogue: _Dialogue, user: str, password: str, able: list[str]) -> None:
    ways = {word for line in able if line[:5].upper() == "AUTH " for word in line[5:].upper().split()}
    if "PLAIN" in ways:
        secret = b64encode(f"\0{user}\0{password}".encode())
        await dialogue.say(b"AUTH PLAIN " + secret, "the login", 235)
    elif "LOGIN" in ways:
        await dialogue.say(b"AUTH LOGIN", "the login", 334)
        await dialogue.say(b64encode(user.encode()), "the login", 334)
        await dialogue.say(b64encode(password.encode()), "the login", 235)
    else:
        raise MailFailed("the mail server lets nobody log in with a password (AUTH PLAIN or LOGIN)")


class _Factory(Factory):
    noisy = False
