"""What is said in FTP: which file a URL names, and what replies mean.  Pure functions."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from lcc.errors import FetchError
from lcc.numbers import INT64_MAX, parse_number

DETAIL_CHARS_MAX = 200
"""Of a reply, as much is repeated in error texts."""
DATA_PORT_MIN = 1024
"""Data connections to lower ports are not made: a server could have us talk to any service of its host (RFC 2577)."""

_URL = re.compile(r"ftp://(\[[0-9a-fA-F:.]+\]|[^/?#\[\]@:\\\s]+)(?::([0-9]{1,5}))?/([^#]*)(?:#.*)?", re.DOTALL)
_TYPE = re.compile(r";type=([a-zA-Z])\Z")
_MODIFIED = re.compile(r"213 ([0-9]{14})(?:\.[0-9]+)?\s*")
_SIZE = re.compile(r"213 ([0-9]{1,18})\s*")
_EXTENDED = re.compile(r"\(([!-~])\1\1([0-9]{1,5})\1\)")
_PASSIVE = re.compile(r"((?:[0-9]{1,3},){4})([0-9]{1,3}),([0-9]{1,3})")


class FtpName(NamedTuple):
    """What a URL names.

    :ivar host: as in the URL, IPv6 in brackets.
    :ivar path: relative to where the login leads; each character is one byte.  That of a folder ends with a slash,
        or is empty.
    """

    host: str
    port: int
    path: str

    @property
    def is_folder(self) -> bool:
        """It names a folder."""
        return not self.path or self.path.endswith("/")


def ftp_name(url: str, folders: bool = False) -> FtpName:
    """What this URL names (RFC 1738, section 3.2).

    :param folders: it may be a folder.

    An encoded slash, and dot segments behind encodings, are refused: with them a path could lead out of the root
    that the URL lies under.  So are control characters: a line end would begin another command.

    :raises FetchError: "scheme-unsupported": this is nothing that can be fetched.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise FetchError("scheme-unsupported", f"{url[:200]!a} is no FTP URL of a file")
    port = parse_number(match[2], 99_999) if match[2] else 21
    if not 0 < port < 65536:
        raise FetchError("scheme-unsupported", f"port {port}")
    path = match[3]
    kind = _TYPE.search(path)
    if kind is not None:
        path = path[: kind.start()]
        if kind[1] not in "iI":
            raise FetchError("scheme-unsupported", f"only type=i is fetched, not type={kind[1]}")
    segments = [unquote_to_bytes(segment) for segment in path.split("/")]
    for segment in segments:
        if segment in (b".", b"..") or any(byte < 32 or byte in b"/\x7f" for byte in segment):
            raise FetchError("scheme-unsupported", f"{segment[:80]!r} in the path")
    if not segments[-1] and not folders:
        raise FetchError("scheme-unsupported", "this is a folder, not a file")
    return FtpName(match[1].lower(), port, b"/".join(segments).decode("latin-1"))


def modified_seconds(reply: str) -> int | None:
    """Seconds since 1970 that a reply to MDTM tells; None: none."""
    match = _MODIFIED.fullmatch(reply)
    if match is None:
        return None
    try:
        moment = datetime.strptime(match[1], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    seconds = timegm(moment.timetuple())
    return seconds if seconds >= 0 else None


def size_bytes(reply: str) -> int | None:
    """The length that a reply to SIZE tells; None: none."""
    match = _SIZE.fullmatch(reply)
    return parse_number(match[1], INT64_MAX) if match is not None else None


def data_port(reply: str) -> int:
    """Where the server waits for the data connection, from its reply to EPSV or PASV.

    The host that a PASV reply names is not read at all: the data connection goes where the control connection went.

    :raises FetchError: "bad-response", "address-forbidden".
    """
    extended = _EXTENDED.search(reply)
    passive = _PASSIVE.search(reply[4:])
    if extended is not None:
        port = parse_number(extended[2], 99_999)
    elif passive is not None and (high := _octet(passive[2])) < 256 and (low := _octet(passive[3])) < 256:
        port = high * 256 + low
    else:
        raise FetchError("bad-response", f"no port in {reply[:DETAIL_CHARS_MAX]!a}")
    if not DATA_PORT_MIN <= port < 65536:
        raise FetchError("address-forbidden", f"a data connection to port {port}")
    return port


def _octet(text: str) -> int:
    return parse_number(text, 999)


def refusal(reply: Sequence[str], login: bool) -> FetchError:
    """The error that a refusing reply (4xx, 5xx) means.

    550 stands for 404: there is no other reply for a file that does not exist, though it has other reasons, too.

    :param login: nothing was asked for yet.
    """
    last = reply[-1] if reply else ""
    detail = ascii(last[:DETAIL_CHARS_MAX])[1:-1]
    if login:
        return FetchError("login-refused", detail)
    if last.startswith("550"):
        return FetchError.from_status(404, detail)
    return FetchError("server-busy" if last.startswith("4") else "server-refused", detail)
