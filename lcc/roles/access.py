"""Who asks, and what it may see.

A content user's token is ``ID-SECRET``; the database keeps a hash of the secret, which has 128 random bits.  (It has
nothing to do with the token that marks a place among the changes.)
"""

from __future__ import annotations

import re

import attrs

from lcc.numbers import parse_number
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.content_users import get_content_user
from lcc.storage.providers.passwords import DUMMY_HASH, verify_password

_TOKEN = re.compile(r"([1-9][0-9]{0,9})-([0-9a-f]{32})", re.ASCII)
_CUID_MAX = 10**10


class AccessDenied(Exception):
    """The token is not known, or what was asked for is not for this user."""


@attrs.frozen
class Access:
    """What somebody may see.

    :ivar name: who it is, for the log.
    :ivar providers: only what these have told; None: everything.
    :ivar content: content, too; False: rows only.
    :ivar cuid: the user's id; 0: without a token.
    """

    name: str
    providers: frozenset[int] | None = None
    content: bool = True
    cuid: int = attrs.field(default=0, eq=False)

    def sees(self, pid: int) -> bool:
        """Whether this provider's URLs are among it."""
        return self.providers is None or pid in self.providers


EVERYTHING = Access("everybody")
ROWS = Access("everybody", content=False)
WITHOUT_TOKEN: dict[str, Access | None] = {"nothing": None, "rows": ROWS, "content": EVERYTHING}
"""What ``[cu] without_token`` can say, and what it means."""


def access_token(cuid: int, secret: str) -> str:
    """The token of a content user."""
    return f"{cuid}-{secret}"


def access_without_token(without_token: str) -> Access:
    """What whoever has no token may see.

    :param without_token: a key of :data:`WITHOUT_TOKEN`.
    :raises AccessDenied: nothing.
    """
    access = WITHOUT_TOKEN[without_token]
    if access is None:
        raise AccessDenied("a token is needed")
    return access


def check_access(txn: Txn, token: str | None, without_token: str) -> Access:
    """What whoever has this token may see.

    :param token: None: it has none.
    :param without_token: a key of :data:`WITHOUT_TOKEN`.
    :raises AccessDenied: it may see nothing.
    """
    if token is None:
        return access_without_token(without_token)
    match = _TOKEN.fullmatch(token)
    user = None if match is None else get_content_user(txn, parse_number(match[1], _CUID_MAX))
    # One text and one cost, whatever is wrong with it.
    right = verify_password("" if match is None else match[2], DUMMY_HASH if user is None else user.secret_hash)
    if user is None or not right:
        raise AccessDenied("this token is not known")
    return Access(user.name, user.providers, user.content, user.cuid)
