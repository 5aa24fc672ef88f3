"""What sites push: lists of URLs that have changed, and the keys by which they show that they may say so."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs


class KeyState(Enum):
    """How far the key of a site is."""

    WAITING = "waiting"
    """Its file is to be fetched."""
    APPROVAL = "approval"
    """It is proven, the site is nobody's: an operator is to say whether it becomes a watched provider."""
    APPROVED = "approved"
    """It is proven, and a watched provider is to be made."""
    PROVEN = "proven"
    REFUSED = "refused"


@attrs.frozen
class Submission:
    """A list of URLs, as it was pushed.

    :ivar site: ``scheme://host[:port]/`` of the key file.
    :ivar location: URL of the key file.
    :ivar folder: that of the key file: the URLs begin with it (or with its http twin).
    :ivar urls: normal ones, each once.
    """

    site: str
    key: str
    location: str
    folder: str
    urls: tuple[str, ...]


@attrs.frozen
class SiteKey:
    """A key that a site has named.

    :ivar id: digest of key and location.
    :ivar pid: the provider that its folder belongs to; 0: not known yet.
    :ivar why: why it is refused, or could not be looked at; empty: there is nothing to say.
    :ivar proven_time: when its file was found for the last time, in seconds since 1970; 0: never.
    :ivar due_time: when its file is fetched, or may be again.
    :ivar failures: in succession, of attempts to fetch it.
    """

    id: bytes
    site: str
    key: str
    location: str
    folder: str
    state: KeyState
    pid: int = 0
    why: str = ""
    made_time: int = 0
    proven_time: int = 0
    due_time: int = 0
    failures: int = 0


@attrs.frozen
class PushClaim:
    """A push server has claimed its tables.

    :ivar epoch: of the numbers of its sets.
    :ivar unproven: URLs that wait for the proof of a key; ``untold``: that the UNS has not answered.
    """

    epoch: str
    unproven: int
    untold: int


@attrs.frozen
class PushSet:
    """URLs that have no answer of the UNS yet.

    :ivar order: order number of the asking; 0: none is drawn yet.
    :ivar urls: attributes of each ``<url>``.
    """

    number: int
    key: bytes
    folder: str
    pid: int
    order: int
    urls: tuple[Mapping[str, str], ...]


@attrs.frozen
class PushRecord:
    """What became of a push, or of a part of it.

    :ivar state: ``waiting`` (for the proof), ``accepted`` (not told yet), ``told`` or ``refused``.
    :ivar text: what was refused, and why.
    """

    number: int
    time: int
    count: int
    state: str
    text: str = ""
