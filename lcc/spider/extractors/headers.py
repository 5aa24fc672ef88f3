"""What the header of an answer says of links: ``Link`` (RFC 8288) and ``X-Robots-Tag``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lcc.spider.extractors.found import Found

VALUE_CHARS_MAX = 65536
"""Of all values of one name."""
_TARGET = re.compile(r"[\s,]*<([^>]*)>")
_PARAMETER = re.compile(r"""\s*;\s*([^\s=;,"]*)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ROBOT = re.compile(r"\s*([a-z0-9_-]+)\s*:\s*(.*)", re.DOTALL | re.IGNORECASE).fullmatch
_WITH_VALUES = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})


def read_headers(headers: Iterable[tuple[str, str]], found: Found, robot: str) -> None:
    """Take the links of ``Link``, and what ``X-Robots-Tag`` says to all or to this robot.

    :param robot: the product token of our own user agent, lower case.
    :raises Full: there are as many links as are wanted.
    """
    chars = 0
    for name, value in headers:
        kind = name.lower()
        if kind not in ("link", "x-robots-tag"):
            continue
        chars += len(value)
        if chars > VALUE_CHARS_MAX:
            found.fault(f"the header has more than {VALUE_CHARS_MAX} characters of links and directives")
            found.truncated = True
            return
        if kind == "link":
            _links(value, found)
        else:
            _directives(value, found, robot)


def _links(value: str, found: Found) -> None:
    at = 0
    while match := _TARGET.match(value, at):
        at = match.end()
        rel, title = "", ""
        while parameter := _PARAMETER.match(value, at):
            if parameter.end() == at:
                break
            at = parameter.end()
            name = parameter[1].lower()
            said = _ESCAPED.sub(r"\1", parameter[2]) if parameter[2] is not None else parameter[3] or ""
            if name == "rel":
                rel = rel or said
            elif name == "title":
                title = title or said
        if not {"preconnect", "dns-prefetch"} >= {*rel.lower().split()} or not rel:
            found.link(match[1], title, rel, "header")
        at = _behind(value, at)


def _behind(value: str, at: int) -> int:
    """Behind the comma that ends a link; what stands before it is none of a link."""
    comma = value.find(",", at)
    return len(value) if comma < 0 else comma


def _directives(value: str, found: Found, robot: str) -> None:
    meant = True
    for directive in value.split(","):
        match = _ROBOT(directive)
        if match is not None and match[1].lower() not in _WITH_VALUES:
            meant = match[1].lower() == robot
            directive = match[2]
        if meant:
            found.robots(directive)
