"""The wire of the work: queue manager <-> BOT-M <-> BOT (and, between BOT-Ms, the same).

The lower end connects to the upper one.  Each end opens one root element whose attributes are its hello, then::

    down  <fetch …/>        fetch this; between BOT-M and BOT with the file to write to
          <delete …/>       remove this file (to BOT-Ms)
          <recorded …/>     results up to this number need not be kept any longer
          <mark …/>         how far the database has come (to BOT-Ms)
    up    <running …/>* <ready/>    once, first: what is still being fetched from before
          <capacity …/>     how many fetches may be outstanding, whenever it changes
          <done …/>         how a fetch ended
          <deleted …/>      the file of this delete order is gone
"""

from __future__ import annotations

import attrs

from lcc.protocols.flat import Flat, Vocabulary


@attrs.frozen
class Fetch(Flat):
    """A work order.

    :ivar id: names the order for as long as anybody remembers it; unique over all queue managers' runs.
    :ivar key: the URL's key in hexadecimal; with ``generation`` it comes back in the result.
    :ivar roots: where redirects may lead: normalised URL prefixes, separated by spaces.
    :ivar lease_seconds: from now on; whoever holds the order gives up when it has passed.
    :ivar attempt: BOT-M to BOT only: path of the file to write, relative to the content folder.
    """

    TAG = "fetch"
    id: str
    pid: int
    key: str
    generation: int
    url: str
    roots: str
    lease_seconds: int
    mimetype: str = ""
    private: bool = False
    insecure: bool = False
    attempt: str = ""


@attrs.frozen
class Delete(Flat):
    """Remove a file.  ``id`` is that of the ``fsmdb`` row."""

    TAG = "delete"
    id: int
    machine: int
    file: int


@attrs.frozen
class RecordedUpto(Flat):
    """The results with ``number`` up to this one are on stable storage."""

    TAG = "recorded"
    number: int


@attrs.frozen
class Mark(Flat):
    """How far the database has come, for the BOT-M to remember and to say in its hello.

    :ivar epoch: of the database.
    :ivar change: the number of its last change; durable.
    """

    TAG = "mark"
    epoch: str
    change: int


@attrs.frozen
class Running(Flat):
    """An order from before this connection is still being fetched."""

    TAG = "running"
    id: str
    pid: int
    key: str
    generation: int
    lease_seconds: int


@attrs.frozen
class Ready(Flat):
    """All that was running has been named."""

    TAG = "ready"


@attrs.frozen
class Capacity(Flat):
    """How many fetches this end takes at once; the upper end may slightly overload it."""

    TAG = "capacity"
    fetches: int


@attrs.frozen
class Done(Flat):
    """The end of a fetch; the fields are those of :class:`lcc.model.FetchResult`.

    :ivar number: BOT-M upwards: counts the results of this BOT-M's run; 0 from a BOT.
    """

    TAG = "done"
    number: int
    id: str
    pid: int
    key: str
    generation: int
    code: int
    status: int = 0
    detail: str = ""
    url: str = ""
    size_bytes: int = attrs.field(default=0, metadata={"wire": "size"})
    md5: str = ""
    mimetype: str = ""
    charset: str = ""
    modified: int | None = None
    etag: str = ""
    headers: str = ""
    wire_bytes: int = attrs.field(default=0, metadata={"wire": "wire"})
    elapsed_ms: int = attrs.field(default=0, metadata={"wire": "ms"})
    machine: int | None = None
    file: int | None = None


@attrs.frozen
class Deleted(Flat):
    """The file of this delete order is gone (also when it was not there)."""

    TAG = "deleted"
    id: int


@attrs.frozen
class Ping(Flat):
    """Says only that the peer is alive."""

    TAG = "ping"


DOWN = Vocabulary(Fetch, Delete, RecordedUpto, Mark, Ping)
UP = Vocabulary(Running, Ready, Capacity, Done, Deleted, Ping)
