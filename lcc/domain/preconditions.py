"""Conditional requests for a content (RFC 9110, section 13): what ``If-Match`` and the like come to."""

from __future__ import annotations

import re

from lcc.domain.times import http_date

# Empty elements of a list count for nothing (section 5.6.1).
_ELEMENT = re.compile(r'[ \t]*(?:(W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(?=,|\Z)')
TAGS_MAX = 100
"""Of a list of entity tags, no more are read."""

NOT_MODIFIED, PRECONDITION_FAILED = 304, 412


def entity_tags(value: str) -> frozenset[tuple[bool, str]]:
    """The entity tags of a list, each with whether it is weak; none, where it is no such list."""
    tags: set[tuple[bool, str]] = set()
    at = 0
    while at < len(value) and len(tags) < TAGS_MAX:
        match = _ELEMENT.match(value, at)
        if match is None:
            return frozenset()
        if match[2] is not None:
            tags.add((match[1] is not None, match[2]))
        at = match.end() + 1
    return frozenset(tags)


def precondition(
    etag: str,
    modified: int | None,
    *,
    if_match: str | None,
    if_none_match: str | None,
    if_modified_since: str | None,
    if_unmodified_since: str | None,
) -> int:
    """The status that a GET or HEAD ends with by its conditions; 0: it is answered as if it had none.

    :param etag: of the content, a strong one, with its quotes.
    :param modified: when it was modified, in seconds since 1970; None: not known.
    :param if_match, if_none_match, if_modified_since, if_unmodified_since: those header fields; None: there is none.
    """
    if if_match is not None:
        if if_match.strip() != "*" and (False, etag) not in entity_tags(if_match):
            return PRECONDITION_FAILED
    elif if_unmodified_since is not None and modified is not None:
        since = http_date(if_unmodified_since)
        if since is not None and modified > since:
            return PRECONDITION_FAILED
    if if_none_match is not None:
        if if_none_match.strip() == "*" or any(tag == etag for _, tag in entity_tags(if_none_match)):
            return NOT_MODIFIED
    elif if_modified_since is not None and modified is not None:
        since = http_date(if_modified_since)
        if since is not None and modified <= since:
            return NOT_MODIFIED
    return 0
