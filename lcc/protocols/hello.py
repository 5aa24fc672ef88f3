"""The hello of every internal wire: the attributes of the root element that each end opens.

``<lcc:stream xmlns:lcc="http://www.lococa.org/1.0" role="…" name="…" version="1" …>``
"""

from __future__ import annotations

from typing import Self

import attrs

from lcc.errors import StreamError
from lcc.protocols.flat import Flat, read_number
from lcc.protocols.xmlfeed import NAMESPACE, FeedLimits

VERSION = 1
ROOT = "stream"
KNOWS_INTERVAL = "interval"
"""Of a BOT or BOT-M: it keeps to the interval of an order, and says what is owed when it hands one back."""
KNOWS_BATCHES = "batches"
"""Of a BOT: it stores the files of a batch (:mod:`lcc.model.content_batches`)."""
NAME_BYTES_MAX = 255

INTERNAL_LIMITS = FeedLimits(
    document_bytes=None, token_bytes=262_144, depth=2, attribute_count=64, value_chars=131_072, text_chars=4096
)
"""The feed of an internal wire: one document without end, flat messages, room for stored response headers."""


@attrs.frozen
class Hello(Flat):
    """Who is there.

    :ivar role: ``uns``, ``qm``, ``botm``, ``bot``, ``scheduler`` or ``manager``.
    :ivar name: which one of them, for logs, and the UNS's part of a set's id.
    :ivar epoch: UNS: the epoch of its spool.  BOT-M: the timeline of the database in the last mark that it was told.
    :ivar acked: UNS: the highest set number of that epoch that a queue manager has ever answered.  BOT-M: the number
        of the change in that mark.  (A database that knows less than this has gone back in time.)
    :ivar numbers_upto: UNS: set numbers from this one on were never given out; 0: it does not say.  (If the database
        knows higher ones, the UNS's spool has gone back in time.)
    :ivar machine: BOT-M: its machine id; 0: it is a central one, which speaks for the machines behind it
        (:class:`lcc.protocols.work.MachineHello`).
    :ivar names_upto: BOT-M: file ids from this one on were never given out.
    :ivar capacity: BOT, BOT-M: fetches at once.
    :ivar orders_max: BOT, BOT-M: orders that it holds at once, if several of one provider may be among them; 0: an
        older version, which gets the next order of a provider when it has answered the last one.
    :ivar run: names this run of the process.
    :ivar clock_ms: its clock, in milliseconds from whatever moment it likes; pings say it again
        (:meth:`lcc.roles.peer.Peer.peer_clock_ms`).
    :ivar content: BOT-M: where its content port is reached (``http://host:port`` or ``unix:/path``); empty: nowhere.
    :ivar session: BOT-M: names this connection (:func:`session_name`); on wires that several machines share, all that
        is said to the machine names it, too, so that what was meant for an earlier connection, and was still on its
        way, is known as such.  Empty: an older version, or a central BOT-M of an older version on the way.
    :ivar folder: BOT: path of the content folder that it writes to, for display; empty: an older version.
    :ivar owner: BOT: the run of the BOT-M that has opened this folder, as it stands there; empty: none.
    :ivar suspect_from, suspect_upto: BOT-M: files from the first to before the second may have been lost when the
        machine crashed, and are to be verified; both 0: none.
    :ivar host: manager: the host that it runs on, as tasks name it (``--on``).
    """

    TAG = ROOT
    role: str
    name: str
    version: int = VERSION
    epoch: str = ""
    acked: int = 0
    numbers_upto: int = 0
    machine: int = 0
    names_upto: int = 0
    capacity: int = 0
    orders_max: int = 0
    run: str = ""
    clock_ms: int | None = None
    content: str = ""
    session: str = ""
    folder: str = ""
    owner: str = ""
    suspect_from: int = 0
    suspect_upto: int = 0
    host: str = ""
    knows: str = ""

    @classmethod
    def from_attributes(cls, attributes: dict[str, str]) -> Self:
        """As :meth:`Flat.from_attributes`; names are bounded, as they are in the database."""
        hello = super().from_attributes(attributes)
        names = (hello.name, hello.epoch, hello.run, hello.session, hello.owner, hello.host, hello.knows)
        if any(len(name.encode()) > NAME_BYTES_MAX for name in names):
            raise StreamError("limit", f"<{cls.TAG}> with a name of more than {NAME_BYTES_MAX} bytes")
        return hello

    def open_tag(self) -> str:
        """The root's start tag."""
        body = self.to_xml().removeprefix(f"<{ROOT}").removesuffix("/>")
        return f'<lcc:{ROOT} xmlns:lcc="{NAMESPACE}" version="{VERSION}"{body}>\n'


def session_name(run: str, number: int) -> str:
    """Names a connection of this run of a process.

    :param number: counts its connections.
    """
    return f"{run}.{number}"


def is_earlier(session: str, than: str) -> bool:
    """Whether both are connections of one run, and the first was made before the second."""
    run, _, number = session.rpartition(".")
    other_run, _, other_number = than.rpartition(".")
    try:
        return run == other_run and read_number(number) < read_number(other_number)
    except ValueError:
        return False


def read_hello(name: str, attributes: dict[str, str]) -> Hello:
    """The peer's hello.

    :raises StreamError: this is no LCC stream, or one of another version.
    """
    if name != ROOT:
        raise StreamError("unknown-message", f"<{name[:80]}> where <{ROOT}> opens the stream")
    hello = Hello.from_attributes(attributes)
    if hello.version != VERSION:
        raise StreamError("unknown-message", f"protocol version {hello.version}; this end speaks {VERSION}")
    return hello


@attrs.frozen
class Ready(Flat):
    """All that was running has been named.

    :ivar unsure: from a BOT-M: but for orders of an earlier run of it, which robots that hang may still be fetching.
    :ivar up_seconds: for how long this run of it has run at least, if it is unsure.
    """

    TAG = "ready"
    unsure: bool = False
    up_seconds: int = 0


@attrs.frozen
class Ping(Flat):
    """Says only that the peer is alive.

    :ivar clock_ms: as in the hello.
    """

    TAG = "ping"
    clock_ms: int | None = None
