"""Orders to fetch, and what came of them."""

from __future__ import annotations

from typing import NamedTuple

import attrs


class FetchStep(NamedTuple):
    """Something that a fetcher did, told to who watches it.

    :ivar name: ``resolved``, ``connected`` (TCP), ``secured`` (TLS), ``reused`` (a kept connection), ``request``,
        ``first-byte``, ``response``, ``redirect``; a fetcher may have others.
    :ivar seconds: the reactor's time.
    :ivar detail: for a person.
    :ivar lines: what was sent or received, such as header fields.
    """

    name: str
    seconds: float
    detail: str = ""
    lines: tuple[str, ...] = ()


class FetchOrder(NamedTuple):
    """What a fetcher is asked for.

    :ivar url: absolute, normalised.
    :ivar mimetype: as told by the provider; empty: not told.
    :ivar private: private addresses are allowed.
    :ivar insecure: TLS certificates are not verified.
    :ivar conditional: if the content is still the one that ``etag``, ``modified`` and ``stored_bytes`` describe, it
        need not be fetched (:attr:`Fetched.unchanged`).
    :ivar etag, modified: of the content that is stored, as an earlier fetch reported them.
    :ivar stored_bytes: its length; None: not known.
    :ivar polled: the LCC wants to read it for itself.  Redirects may lead anywhere; on another host than the order's
        ``private`` and ``insecure`` do not hold.
    :ivar accepts: patterns of mime types, separated by spaces: content of another one need not be fetched
        ("mimetype-not-accepted").  Empty: all.
    :ivar renew: the header of an answer "not modified" is told as well.
    """

    pid: int
    url: str
    mimetype: str = ""
    private: bool = False
    insecure: bool = False
    conditional: bool = False
    etag: str = ""
    modified: int | None = None
    stored_bytes: int | None = None
    polled: bool = False
    accepts: str = ""
    renew: bool = False


class Fetched(NamedTuple):
    """What a fetcher says of content that it has written to the sink; the fields as in :class:`FetchResult`.

    :ivar unchanged: the stored content is still the right one; nothing was written.
    :ivar moved: where permanent redirects lead from the order's URL; empty: there are none.
    """

    status: int
    url: str
    mimetype: str = ""
    charset: str = ""
    modified: int | None = None
    etag: str = ""
    headers: str = ""
    wire_bytes: int = 0
    revalidate: bool = False
    unchanged: bool = False
    moved: str = ""


class FetchResult(NamedTuple):
    """How a fetch ended.

    :ivar code: 0: content was stored; else the error's code (:mod:`lcc.errors`).
    :ivar detail: for a failure, what exactly happened.
    :ivar size_bytes, md5: of the stored content.
    :ivar mimetype, charset: as the server said, normalised; empty: it said nothing.
    :ivar modified: the server's Last-Modified; None: it said nothing usable.
    :ivar headers: the response headers within bounds, a JSON list ``[name, value, …]``.
    :ivar wire_bytes: what travelled, headers included.
    :ivar machine, file: where the content is: machine id and file id; None without content.
    :ivar revalidate: ``etag`` or ``modified`` tell this content from every later one, so the next order may be a
        conditional one.
    :ivar unchanged: nothing was fetched, because the content that is stored is still the right one: its
        ``Stored.token``, as the order had it; empty: the order was not conditional, or content was fetched.
    :ivar moved: where permanent redirects lead from the order's URL; empty: there are none.
    :ivar files: of a batch of content files: what was stored of it, ``file`` being the id of the first
        (``lcc.model.content_batches``).
    """

    pid: int
    key: bytes
    generation: int
    code: int
    status: int = 0
    detail: str = ""
    url: str = ""
    size_bytes: int = 0
    md5: str = ""
    mimetype: str = ""
    charset: str = ""
    modified: int | None = None
    etag: str = ""
    headers: str = ""
    wire_bytes: int = 0
    elapsed_ms: int = 0
    machine: int | None = None
    file: int | None = None
    revalidate: bool = False
    unchanged: str = ""
    moved: str = ""
    files: str = ""


class MachineState(NamedTuple):
    """A row of ``machines``.

    :ivar last_seen: seconds since 1970.
    :ivar lease_until: its orders may be running up to this time (seconds since 1970; for people, as the wall
        clock may be set); 0: it has none.
    :ivar names_upto: file ids below this one were given out there.
    """

    machine: int
    last_seen: int = 0
    lease_until: int = 0
    names_upto: int = 0


@attrs.frozen
class DeleteOrder:
    """A row of ``fsmdb``: a file to be removed on a machine."""

    id: int
    machine: int
    file: int
