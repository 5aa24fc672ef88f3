"""Every error that the LCC can report: its number, its name, its text and what the queue does about it.

The numbers are stable: providers store and translate them (seed 002, section 13).  A fetch that failed with an
HTTP status reports that status (100 to 599) as its code; everything else has a number of its own from 1000 up.

* 10xx the connection: reasons of ``<init_rejected>`` and of closed streams
* 11xx a whole set: codes of ``<set_rejected>``
* 12xx one ``<url>`` element, found by the UNS while the set arrives
* 13xx a fetch failed because of the provider's site (name, connection): the whole provider waits
* 14xx a fetch failed because of this one URL
* 15xx found by the queue manager: quotas, expiry
* 16xx the proof of a registration failed; other failures of its fetch are 13xx, 14xx and HTTP statuses, too
"""

from __future__ import annotations

from enum import Enum
from http import HTTPStatus

import attrs


class Remedy(Enum):
    """What the queue does with a fetch that failed (design: rules of the queue)."""

    HOLD_PROVIDER = "hold provider"
    """The site cannot be reached: all of the provider's queue waits, with growing delays."""
    RETRY = "retry"
    """To the end of its set, up to the configured number of attempts; then KEEP."""
    KEEP = "keep"
    """Final: reported to the provider; content fetched earlier is kept."""
    DELETE = "delete"
    """Final: reported to the provider; content fetched earlier is deleted (404, 410)."""
    WAIT = "wait"
    """Nothing was found out about it (its hours were over, there was no room, its turn did not come): it waits again,
    and no attempt is counted."""
    NONE = "none"
    """Not the outcome of a fetch."""


@attrs.frozen
class ErrorEntry:
    """One row of the error table.

    :ivar code: the stable number.
    :ivar name: a stable lower-case name, for logs and programs.
    :ivar text: the English text that the provider sees.
    :ivar remedy: what the queue does when a fetch ends with it.
    """

    code: int
    name: str
    text: str
    remedy: Remedy = Remedy.NONE


_H, _R, _K = Remedy.HOLD_PROVIDER, Remedy.RETRY, Remedy.KEEP

_TABLE = (
    ErrorEntry(1001, "syntax", "the message is not well-formed XML"),
    ErrorEntry(1002, "unknown-message", "unknown or unexpected message"),
    ErrorEntry(1003, "limit", "server limit exceeded"),
    ErrorEntry(1004, "encoding", "only UTF-8 without a DOCTYPE is accepted"),
    ErrorEntry(1005, "timeout", "timed out waiting for data"),
    ErrorEntry(1010, "access-denied", "unknown provider or wrong password"),
    ErrorEntry(1011, "throttled", "too many failed attempts, try again later"),
    ErrorEntry(1012, "try-later", "system temporarily off-line, try again later"),
    ErrorEntry(1013, "internal", "internal error, try again later"),
    ErrorEntry(1014, "too-many-connections", "too many connections, try again later"),
    ErrorEntry(1015, "cut-off", "connection closed in mid-message, send it again"),
    ErrorEntry(1101, "full-set-not-allowed", "no unsolicited full set is allowed at this time"),
    ErrorEntry(1102, "set-too-large", "the set exceeds this server's limit"),
    ErrorEntry(1103, "bad-set", "invalid set attributes"),
    ErrorEntry(1104, "bad-prefix", "the urlprefix is not the start of an absolute URL"),
    ErrorEntry(1105, "provider-gone", "the provider is no longer registered"),
    ErrorEntry(1106, "names-nothing", "the full set names no URL within the provider's roots"),
    ErrorEntry(1107, "bad-order", "the set's order number was not drawn for it"),
    ErrorEntry(1108, "site-moved", "the site has moved to another sub-LCC"),
    ErrorEntry(1201, "curl-missing", "the conceptual URL (curl or c) is missing"),
    ErrorEntry(1202, "bad-url", "not a valid URL"),
    ErrorEntry(1203, "bad-scheme", "unsupported URL scheme"),
    ErrorEntry(1204, "outside-roots", "the URL is outside the provider's roots"),
    ErrorEntry(1205, "mimetype-missing", "the mime type (mimetype or m) is missing"),
    ErrorEntry(1206, "bad-mimetype", "not a valid mime type"),
    ErrorEntry(1207, "mimetype-not-accepted", "this mime type is not accepted here"),
    ErrorEntry(1208, "bad-md5", "md5 is not 32 hexadecimal digits"),
    ErrorEntry(1209, "bad-len", "len is not a length in bytes"),
    ErrorEntry(1210, "bad-mtime", "mtime is neither ISO 8601 nor seconds since 1970"),
    ErrorEntry(1211, "bad-op", "op is neither update nor delete"),
    ErrorEntry(1212, "bad-hours", "invalid hours"),
    ErrorEntry(1213, "hours-never", "the hours never overlap the provider's"),
    ErrorEntry(1214, "bad-flag", "invalid attribute value"),
    ErrorEntry(1215, "user-info", "the URL must not contain a user name or password"),
    ErrorEntry(1216, "too-long", "an attribute is too long"),
    ErrorEntry(1217, "conflict", "an attribute is given in its long and its short form, with different values"),
    ErrorEntry(1301, "dns-failed", "cannot resolve the host name", _H),
    ErrorEntry(1302, "connect-refused", "connection refused", _H),
    ErrorEntry(1303, "connect-timeout", "connection timed out", _H),
    ErrorEntry(1304, "tls-failed", "TLS handshake failed", _H),
    ErrorEntry(1305, "address-forbidden", "fetching from the host's address is forbidden", _K),
    ErrorEntry(1306, "connection-lost", "connection lost before the response began", _R),
    ErrorEntry(1307, "login-refused", "login refused by the server", _H),
    ErrorEntry(1401, "deadline", "the fetch took too long", _R),
    ErrorEntry(1402, "headers-too-long", "the response header is too long", _K),
    ErrorEntry(1403, "body-too-long", "the content exceeds this server's limit", _K),
    ErrorEntry(1404, "bad-response", "invalid response from the server", _R),
    ErrorEntry(1405, "early-eof", "the content ended early", _R),
    ErrorEntry(1406, "redirect-loop", "too many redirects", _K),
    ErrorEntry(1407, "redirect-outside", "redirect outside the provider's roots", _K),
    ErrorEntry(1408, "mimetype-mismatch", "the content's mime type differs from the submitted one", _K),
    ErrorEntry(1409, "bad-coding", "unrequested content coding", _K),
    ErrorEntry(1410, "store-failed", "cannot store the content", _R),
    ErrorEntry(1411, "scheme-unsupported", "no fetcher for this URL scheme", _K),
    ErrorEntry(1412, "idle-timeout", "the server stopped sending", _R),
    ErrorEntry(1413, "robot-error", "the robot failed on this URL", _R),
    ErrorEntry(1414, "redirect-unreachable", "redirect to an unreachable site", _R),
    ErrorEntry(1415, "hours-over", "its hours ended before it was fetched", Remedy.WAIT),
    ErrorEntry(1416, "coding-damaged", "the content cannot be decoded", _R),
    ErrorEntry(1417, "server-refused", "the server refused access", _K),
    ErrorEntry(1418, "server-busy", "the server is temporarily busy", _R),
    ErrorEntry(1419, "file-forbidden", "this file may not be read", _K),
    ErrorEntry(1420, "no-room", "no room on the machine that stores it", Remedy.WAIT),
    ErrorEntry(1421, "handed-back", "its fetch was not begun", Remedy.WAIT),
    ErrorEntry(1501, "quota-files", "file quota exceeded", _K),
    ErrorEntry(1502, "quota-space", "space quota exceeded", _K),
    ErrorEntry(1503, "expired", "removed: not confirmed for too long", _K),
    ErrorEntry(1601, "redirect-elsewhere", "redirect to another host"),
    ErrorEntry(1602, "other-content", "the file does not contain the secret"),
)

ERRORS: dict[int, ErrorEntry] = {entry.code: entry for entry in _TABLE}
"""The error table: code -> entry.  HTTP statuses are not in it; :func:`entry_for` makes theirs."""

CODES: dict[str, int] = {entry.name: entry.code for entry in _TABLE}
"""Name -> code, so that code can say ``CODES["dns-failed"]``; see :func:`code`."""

RETRYABLE_STATUSES = frozenset({408, 421, 425, 429, 500, 502, 503, 504})
GONE_STATUSES = frozenset({404, 410})


def code(name: str) -> int:
    """The number of the error with this name.

    :raises KeyError: for a name that is not in the table (a fault in the program).
    """
    return CODES[name]


def entry_for(number: int) -> ErrorEntry:
    """The table's entry for a code, an HTTP status included.  Never fails: an unknown code is final, kept."""
    entry = ERRORS.get(number)
    if entry is not None:
        return entry
    try:
        text = HTTPStatus(number).phrase
    except ValueError:
        text = f"status {number}"
    if number in GONE_STATUSES:
        remedy = Remedy.DELETE
    elif number in RETRYABLE_STATUSES:
        remedy = Remedy.RETRY
    else:
        remedy = Remedy.KEEP
    return ErrorEntry(number, f"http-{number}", text, remedy)


class LccError(Exception):
    """The root of all exceptions that the LCC raises for bad input or a bad state.

    :param name: a name of the error table.
    :param detail: what was wrong and where; empty: the table's text says all.
    """

    def __init__(self, name: str, detail: str = "") -> None:
        self.entry = ERRORS[CODES[name]]
        self.detail = detail
        super().__init__(f"{self.entry.text}: {detail}" if detail else self.entry.text)

    @property
    def code(self) -> int:
        """The stable number."""
        return self.entry.code

    @property
    def text(self) -> str:
        """The text for the peer: the table's, with the detail."""
        return str(self)


class StreamError(LccError):
    """A peer sent what this end cannot accept: the stream must be closed (10xx)."""


class SetError(LccError):
    """A set is refused as a whole (11xx)."""


class UrlError(LccError):
    """One ``<url>`` element is refused (12xx)."""


class FetchError(LccError):
    """A fetch ended without content (13xx, 14xx, or an HTTP status: :meth:`from_status`).

    :ivar wire_bytes: what had travelled until then.
    :ivar retry_seconds: the server asks to be left alone for so long (Retry-After); 0: it does not.
    """

    wire_bytes: int = 0
    retry_seconds: int = 0

    @classmethod
    def from_status(cls, status: int, detail: str = "", retry_seconds: int = 0) -> FetchError:
        """The server answered with this status, which is the error's code; ``text`` is its phrase."""
        error = cls("bad-response", detail)
        error.entry = entry_for(status)
        error.retry_seconds = retry_seconds
        error.args = (f"{error.entry.text}: {detail}" if detail else error.entry.text,)
        return error


class RegistrationRefused(Exception):
    """What somebody asks of the registration server cannot be.

    :param kind: a stable lower-case name, for programs.
    :param text: for people.
    :param faults: of a form: the name of each field that is wrong, and what is wrong with it.
    :param retry_seconds: it may be tried again after so long; 0: that would not help.
    """

    def __init__(
        self, kind: str, text: str, faults: dict[str, str] | None = None, retry_seconds: float = 0.0
    ) -> None:
        self.kind = kind
        self.text = text
        self.faults = faults or {}
        self.retry_seconds = retry_seconds
        super().__init__(text)


class ConfigError(Exception):
    """The configuration cannot be used.

    :ivar faults: every fault that was found, a line each, with the key or line it stands at.
    """

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class Busy(Exception):
    """What was asked for is owned by another process (a lock file, a newer queue manager on this database)."""


class StoreUnavailable(Exception):
    """The database cannot be reached or gave up after retries; the caller tries again later."""


class StoreFull(StoreUnavailable):
    """Nothing can be written to the database until somebody makes room."""
