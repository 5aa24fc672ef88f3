"""Sending mails: a few at once, each in its time; what cannot be sent is logged."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred, DeferredList, DeferredSemaphore
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import MailConfig
from lcc.transport.smtp import MailFailed, hand_over

_log = Logger()

AT_ONCE = 4
WAITING_MAX = 200


@attrs.frozen
class Mail:
    """A mail, plain text only.

    :ivar to: a checked address.
    """

    to: str
    subject: str
    text: str = attrs.field(repr=False)


def compose(mail: Mail, sender: str, now: float, message_id: str) -> bytes:
    """The mail as it travels.

    :param message_id: unique, for ever.
    """
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = mail.to
    message["Subject"] = mail.subject
    message["Date"] = formatdate(now)
    message["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail.text)
    return message.as_bytes()


class PostOffice:
    """Queues and sends mails.

    :param now: seconds since 1970.
    :param token: gives 16 hexadecimal digits, never the same twice.
    :param read: the text of a file that ``settings`` names; OSError, UnicodeDecodeError: it cannot be read.
    """

    def __init__(
        self,
        settings: MailConfig,
        reactor: Any,
        now: Callable[[], float],
        token: Callable[[], str],
        read: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._reactor = reactor
        self._now = now
        self._token = token
        self._read = read
        self._places = DeferredSemaphore(AT_ONCE)
        self._sending: set[Deferred[None]] = set()

    def send(self, mail: Mail) -> None:
        """Send a mail, and log how that went."""
        if len(self._sending) >= WAITING_MAX:
            _log.warn("More than {limit} mails waiting to be sent: dropping one", limit=WAITING_MAX)
            return
        sending = self.deliver(mail)
        self._sending.add(sending)
        sending.addBoth(self._ended, sending)

    def deliver(self, mail: Mail) -> Deferred[None]:
        """Send a mail; fires when the mail server has taken it.

        :raises MailFailed: (as the Deferred's failure) it could not be sent.
        """
        return self._places.run(self._deliver, mail)

    def close(self) -> Deferred[None]:
        """End; what is on its way is waited for, for as long as a mail may take."""
        return DeferredList(list(self._sending)).addCallback(lambda _: None)

    def _deliver(self, mail: Mail) -> Deferred[None]:
        settings = self._settings
        message = compose(mail, settings.sender, self._now(), self._token())
        try:
            password = self._read(settings.password_file).splitlines()[0] if settings.user else ""
            authorities = self._read(settings.authorities) if settings.authorities else ""
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise MailFailed(f"cannot read mail.password_file or mail.authorities: {error}") from None

        def late(result: Any, seconds: float) -> Any:
            if isinstance(result, Failure) and result.check(CancelledError):
                raise MailFailed(f"it took more than {seconds:g} seconds")
            return result

        handing = Deferred.fromCoroutine(
            hand_over(self._reactor, settings, password, authorities, [mail.to], message)
        )
        return handing.addTimeout(settings.timeout, self._reactor, late)

    def _ended(self, result: Any, sending: Deferred[None]) -> None:
        self._sending.discard(sending)
        if not isinstance(result, Failure):
            _log.info("Mail sent")
        elif result.check(MailFailed):
            _log.warn("Cannot send a mail: {reason}", reason=result.getErrorMessage())
        else:
            _log.failure("Cannot send a mail", failure=result)
