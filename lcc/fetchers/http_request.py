"""What stands in a request besides the target: pure functions."""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache

_YEAR_10000 = 253402300800


def sender_lines(user_agent: str, contact: str) -> list[str]:
    """Who is asking.

    :param contact: a mail address (with or without ``mailto:``) or a URL; empty: not told.
    """
    agent = f"{user_agent} (+{contact})" if contact else user_agent
    lines = [f"User-Agent: {_field(agent)}"]
    address = contact.removeprefix("mailto:")
    if "@" in address and ":" not in address and "/" not in address:
        # RFC 9110, section 10.1.2: robots should send it.
        lines.append(f"From: {_field(address)}")
    return lines


@lru_cache(maxsize=1024)
def accept_lines(mimetype: str) -> bytes:
    """Ask for the type that was told, so that a server with several views of a page gives the right one.

    :param mimetype: empty: any.
    """
    wanted = "*/*" if mimetype in ("", "*/*") else f"{_field(mimetype)}, */*;q=0.1"
    return f"Accept: {wanted}\r\n".encode("latin-1", "replace")


def condition_lines(etag: str, modified: int | None) -> bytes:
    """Only if it is not the content that these describe any longer.

    :param etag: as the server sent it; empty: none.
    :param modified: its Last-Modified; None: none.
    """
    # Both, for servers that know only one of them; the others take the entity tag (RFC 9110, section 13.2.2).
    lines = f"If-None-Match: {_field(etag)}\r\n" if etag else ""
    if modified is not None and modified < _YEAR_10000:
        lines += f"If-Modified-Since: {formatdate(modified, usegmt=True)}\r\n"
    return lines.encode("latin-1", "replace")


def _field(text: str) -> str:
    """A header value without what could end it."""
    return "".join(character for character in text if character.isprintable())
