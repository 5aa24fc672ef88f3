"""Providers, their registration and what they are told when they connect."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import attrs

PRIORITIES = 3
"""Of providers: 0 to 2, the highest is served first."""


ERROR_BITS = 32
"""Of the number of an error; the bits above say in which epoch it was drawn: another one begins when the database has
lost numbers.  Few enough that programs which know 53 bits only (JavaScript) can tell what they have read."""
ERROR_EPOCH_MAX = (1 << 20) - 1


def clamp(priority: int) -> int:
    """A priority that there is."""
    return min(max(priority, 0), PRIORITIES - 1)


@attrs.frozen
class Provider:
    """A registered content provider: a ``pidb`` row with its ``proots``.

    :ivar roots: normalised URL prefixes; every URL told must begin with one.
    :ivar former_roots: that it had earlier: what it told below them may still be in the cache, and it may delete it.
    :ivar password_hash: as ``lcc.storage.providers.passwords`` writes it; empty: it has none.
    :ivar bandwidth_bytes: bytes per second for fetches; None: without limit.
    :ivar hours: the hours when fetching is allowed, as text (``0-8,22-23``); empty: always.
    :ivar timezone: IANA name for ``hours``; empty: the LCC's own.
    :ivar priority: 0, 1 or 2; higher is fetched first.
    :ivar files_max, space_max_bytes: quotas; None: without limit.
    :ivar full_sets: unsolicited full sets allowed per period; None: without limit.
    :ivar allow_private: fetching from private addresses is allowed.
    :ivar insecure: TLS certificates are not verified.
    :ivar removed: being removed; no longer accepted.
    :ivar contact: mail address of who answers for it; empty: not known.
    :ivar interval_seconds: from the start of one fetch to the start of the next, at least; None: without limit.
    :ivar interval_by: who has set it: ``operator``, ``robots.txt``; empty: nobody (of a watched one, ``[watched]``).
    :ivar hours_by: who has set ``hours`` and ``timezone``, in the same words.
    :ivar watched: nobody has registered it: it has no password, and one root.
    :ivar token_hash: of its token, which may be given in place of its password; empty: it has none.
    """

    pid: int
    roots: tuple[str, ...]
    password_hash: str = attrs.field(repr=False)
    bandwidth_bytes: int | None = None
    hours: str = ""
    timezone: str = ""
    priority: int = 0
    files_max: int | None = None
    space_max_bytes: int | None = None
    full_sets: int | None = 10
    allow_private: bool = False
    insecure: bool = False
    removed: bool = False
    contact: str = ""
    interval_seconds: float | None = None
    watched: bool = False
    interval_by: str = ""
    hours_by: str = ""
    token_hash: str = attrs.field(default="", repr=False)
    former_roots: tuple[str, ...] = ()


class ProviderHosts(NamedTuple):
    """Where a provider is fetched from.

    :ivar hosts: the names, or addresses, in its roots, without ports; each once, sorted.
    """

    pid: int
    hosts: tuple[str, ...]
    watched: bool


@attrs.frozen
class Wishes:
    """How a provider wishes to be fetched from; the fields as in :class:`Provider`."""

    bandwidth_bytes: int | None = None
    hours: str = ""
    timezone: str = ""
    priority: int = 0


class Proves(Enum):
    """What somebody gets who proves to command a site."""

    PROVIDER = "provider"
    """To be a provider, with the site as its root."""
    ROOT = "root"
    """A further root, for a provider that is registered."""
    PASSWORD = "password"
    """A new password, for a provider that proves all of its roots again."""


class Progress(Enum):
    """How far a registration is."""

    ASKED = "asked"
    """Its secret was given out."""
    PROVEN = "proven"
    """Its secret was found, and the operator has to approve it."""
    DONE = "done"
    """What was asked for is so."""


@attrs.frozen
class Registration:
    """Somebody asks for something that needs a proof: a row of ``registrations``.

    :ivar number: its name for operators; 0: not stored yet.
    :ivar ticket_hash: of what who asked shows to go on.
    :ivar secret_hash: of what the file has to hold.
    :ivar password_hash: the provider's, from the proof on; empty: its password stays.
    :ivar file: the name of the file.
    :ivar folders: normalised URLs, each with ``/`` at its end: in each of them the file has to be.
    :ivar pid: the provider; 0: there is none yet.
    :ivar private: the file was found on a private address.
    :ivar created, expires: when it was asked for, and when it is forgotten.
    """

    kind: Proves
    ticket_hash: str = attrs.field(repr=False)
    secret_hash: str = attrs.field(repr=False)
    password_hash: str = attrs.field(repr=False)
    file: str
    folders: tuple[str, ...]
    created: int
    expires: int
    contact: str = ""
    wishes: Wishes = Wishes()
    pid: int = 0
    number: int = 0
    state: Progress = Progress.ASKED
    private: bool = False


@attrs.frozen
class Session:
    """One successful connection of a provider.

    :ivar number: counts the provider's connections; it is shown to the provider.
    :ivar last_ip: where the connection before this one came from; empty: there was none.
    :ivar order: the order number that was drawn for it.
    """

    number: int
    last_ip: str
    order: int = 0


class FullSetKey(NamedTuple):
    """Names an unsolicited full set that has begun.

    :ivar order: its order number, which no other full set under way has.
    """

    pid: int
    order: int


@attrs.frozen
class SetStart:
    """A set that begins to be told.

    :ivar held: the order number that its session has got last.
    :ivar known: the highest order number of the provider that is known here, in the spool.
    :ivar counts: it is an unsolicited full set of a provider who may send only so many.
    """

    pid: int
    held: int
    known: int = 0
    counts: bool = False


@attrs.frozen
class StoredError:
    """An error of an earlier fetch, kept for the provider.

    :ivar number: counts the provider's errors, from 1.
    :ivar url: the resolved fetch URL.
    :ivar sent: the element's attributes as the provider sent them, a JSON list ``[name, value, name, value …]``.
    :ivar source: mask of those whose notices it is about.
    """

    number: int
    code: int
    text: str
    url: str
    sent: str
    time: int
    source: int = 1


@attrs.frozen
class ProviderStatus:
    """What ``<init_accepted>`` says of a provider.

    :ivar full_sets_left: unsolicited full sets still allowed; None: without limit.
    :ivar full_set_wanted: the reason why the LCC wants a full set (``old-files``, ``expired-files``,
        ``cache-crash``, or an operator's); empty: it wants none.
    :ivar wantid: names that request for a full set; 0: there is none.
    :ivar error_count: the exact count of errors since the last accepted set.
    :ivar errors_upto: the number of the latest error that ``error_count`` includes; a set that is accepted after
        these were shown clears up to here.
    :ivar errors: the newest of them, in order, as many as are kept and were asked for.
    :ivar processing: URLs of the provider in the queue.
    :ivar deletions_held: what its last full set did not name, and is not deleted before somebody says so; 0: nothing
        is held.
    :ivar deletions_of: how much was cached of it then.
    """

    files_used: int
    space_used_bytes: int
    full_sets_left: int | None
    full_set_wanted: str
    error_count: int
    errors_upto: int
    errors: tuple[StoredError, ...]
    processing: int
    wantid: int = 0
    deletions_held: int = 0
    deletions_of: int = 0
