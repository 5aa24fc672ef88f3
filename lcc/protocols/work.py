"""The wire of the work: queue manager <-> BOT-M <-> BOT (and, between BOT-Ms, the same).

The lower end connects to the upper one.  Each end opens one root element whose attributes are its hello, then::

    down  <fetch …/>        fetch this; between BOT-M and BOT with the file to write to
          <recall …/>       hand back what is not begun of this provider
          <delete …/>       remove this file (to BOT-Ms)
          <recorded …/>     results up to this number need not be kept any longer
          <mark …/>         how far the database has come (to BOT-Ms)
          <names …/>        give out no file ids below this one (to BOT-Ms)
          <settled/>        no result of an earlier run waits to be recorded (to BOT-Ms)
          <verify …/>       say whether this file is as it must be (to BOT-Ms)
          <intact …/>       files up to this one were verified (to BOT-Ms)
    up    <running …/>* <ready/>    once, first: what is still being fetched from before
          <capacity …/>     how many fetches may be outstanding, whenever it changes
          <robots …/>       which robots there are and how busy, for people (from BOT-Ms)
          <done …/>         how a fetch ended
          <deleted …/>      the file of this delete order is gone
          <checked …/>      whether a file is as it must be

The orders of one provider that are out at the same time are a *run*: they go to one robot, which carries them out one
after the other, in the order in which they came.  A run has no message of its own: what its orders share, said once,
would save two microseconds an order at each hop, and what is lost or acknowledged would no longer be one order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import attrs

from lcc.errors import StreamError
from lcc.model import FetchOrder, FetchResult
from lcc.model.content_batches import FILES_MAX, read_stored
from lcc.numbers import parse_number
from lcc.protocols.flat import ID_MAX, NUMBER_MAX, Flat, FrequentFlat, Vocabulary
from lcc.protocols.hello import Hello, Ping, Ready
from lcc.protocols.xmltext import quoted

ROBOTS_TOLD = 100
"""Robots that one message names."""
ROBOT_CHARS = 100
"""Of a robot's name there."""


class Robot(NamedTuple):
    """A robot, as its BOT-M tells of it.

    :ivar capacity: fetches at once; 0 while it is paused.
    :ivar busy: fetches that it has.
    """

    name: str
    capacity: int
    busy: int
    paused: bool


_ROBOT = (str, int, int, bool)


@attrs.frozen(slots=False)
class Fetch(FrequentFlat):
    """A work order.

    :ivar id: names the order for as long as anybody remembers it; unique over all queue managers' runs.
    :ivar key: the URL's key in hexadecimal; with ``generation`` it comes back in the result.
    :ivar roots: where redirects may lead: normalised URL prefixes, separated by spaces.
    :ivar lease_seconds: from now on; whoever holds the order gives up when it has passed.
    :ivar attempt: BOT-M to BOT only: path of the file to write, relative to the content folder.
    :ivar start_seconds: the fetch must begin within so many seconds from now, because its hours end then; an order
        for which it is too late comes back as ``hours-over``.  None: at any time.
    :ivar sent_ms: when this was sent, on the clock of the end that it is sent to, as far as the sender can be sure
        of that clock: from then on the lease counts, however long the order was on its way.  None: from its arrival.
    :ivar priority: of its provider, 0 to 2: which run gets the next free robot.
    :ivar rate: bytes per second that may be fetched of its provider; 0: without limit.
    :ivar owed_ms: BOT-M to BOT only: the fetch must not begin for so long from when it was sent, because what was
        fetched of its provider before is not paid for yet, or its last fetch began too short a time before.
    :ivar interval_ms: from the start of a fetch of its provider to the start of the next, at least; 0: no limit.
    :ivar polled: only the LCC wants to read this, for itself: redirects may lead anywhere.
    :ivar renew: the LCC wants to read this, whoever names it besides: the header of "not modified" is told.
    :ivar accepts: patterns of mime types, separated by spaces, one of which the content's must match; empty: none.
    :ivar stored: names the content that the cache has; if it is still what ``etag``, ``modified`` and
        ``stored_bytes`` describe, it need not be fetched.  Empty: it is fetched in any case.
    :ivar files: the URL is a batch of so many content files of another LCC, each of which gets a file id of its own,
        from that of ``attempt`` on (:mod:`lcc.model.content_batches`); 0: it is an ordinary one.
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
    start_seconds: int | None = None
    sent_ms: int | None = None
    stored: str = ""
    etag: str = ""
    modified: int | None = None
    stored_bytes: int | None = attrs.field(default=None, metadata={"wire": "stored_size"})
    priority: int = 0
    rate: int = 0
    owed_ms: int = attrs.field(default=0, metadata={"wire": "owed"})
    interval_ms: int = attrs.field(default=0, metadata={"wire": "interval"})
    polled: bool = False
    accepts: str = ""
    renew: bool = False
    files: int = 0

    def order(self) -> FetchOrder:
        """What a fetcher is asked for."""
        return FetchOrder(
            self.pid,
            self.url,
            self.mimetype,
            self.private,
            self.insecure,
            bool(self.stored),
            self.etag,
            self.modified,
            self.stored_bytes,
            self.polled,
            self.accepts,
            self.renew or self.polled,
        )


@attrs.frozen
class Recall(Flat):
    """Of this provider's orders only the one that is being fetched is still wanted: hand back the others
    (``handed-back``).  It is said again on each new connection, until all of them are answered."""

    TAG = "recall"
    pid: int


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

    :ivar epoch: the timeline of the database, which begins with its epoch.
    :ivar change: the number of its last change; durable.
    """

    TAG = "mark"
    epoch: str
    change: int


@attrs.frozen
class Names(Flat):
    """Files with ids below this one may be known to the database: give none of these out any longer.  (The content
    folder was lost, or put back from a backup.)"""

    TAG = "names"
    upto: int


@attrs.frozen
class Settled(Flat):
    """No result of an earlier run of this BOT-M waits to be recorded any longer: a file of such a run that is in no
    row of the database will never be."""

    TAG = "settled"


@attrs.frozen
class Verify(Flat):
    """The machine had crashed: is this file there, of this length and hash?"""

    TAG = "verify"
    file: int
    size_bytes: int = attrs.field(metadata={"wire": "size"})
    md5: str


@attrs.frozen
class Intact(Flat):
    """All files before this one that rows refer to were verified; what was lost is fetched again."""

    TAG = "intact"
    upto: int


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
class Capacity(Flat):
    """How many fetches this end takes at once; the upper end may slightly overload it.

    :ivar trouble: from a BOT-M: why it can store nothing, for display; empty: it can.
    :ivar paused: what an operator has paused here, as words for a person: it takes nothing new.  Empty: nothing.
    :ivar refused: from a BOT-M: which robots get no orders, and why, for display; empty: none.
    :ivar hanging: from a BOT-M: runs that are out here, and that no robot can take, as one that was lost may still be
        fetching: they take nothing from ``fetches``.
    """

    TAG = "capacity"
    fetches: int
    trouble: str = ""
    paused: str = ""
    refused: str = ""
    hanging: int = 0


@attrs.frozen
class Robots(Flat):
    """Which robots are connected to a BOT-M, and how busy they are, for display; told at most every few seconds.

    :ivar count: all that there are.
    :ivar told: the first :data:`ROBOTS_TOLD` of them, by name: JSON, a list of ``[name, fetches at once, fetches that
        it has, paused]``.
    """

    TAG = "robots"
    count: int
    told: str

    @classmethod
    def telling(cls, robots: Iterable[Robot]) -> Robots:
        """The message that says this."""
        listed = sorted(robots)
        return cls(len(listed), json.dumps(listed[:ROBOTS_TOLD], separators=(",", ":"), ensure_ascii=False))

    @property
    def robots(self) -> tuple[Robot, ...]:
        """What it says.

        :raises StreamError: that makes no sense.
        """
        try:
            listed = json.loads(self.told)
            found = [Robot(*each) for each in listed]
            if (
                type(listed) is not list
                or len(found) > ROBOTS_TOLD
                or any(tuple(map(type, each)) != _ROBOT for each in found)
            ):
                raise ValueError
            if any(max(abs(each.capacity), abs(each.busy)) > NUMBER_MAX for each in found):
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            raise StreamError("syntax", f"<{self.TAG}> with told={self.told[:80]!r}") from None
        return tuple(Robot(each.name[:ROBOT_CHARS], *each[1:]) for each in found)


@attrs.frozen(slots=False)
class Done(FrequentFlat):
    """The end of a fetch; the fields are those of :class:`lcc.model.FetchResult`.

    :ivar number: BOT-M upwards: counts the results of this BOT-M's run; 0 from a BOT.
    :ivar owed_ms: of an order that was handed back: no fetch of its provider may begin for so long.
    :ivar moved: where permanent redirects lead from the order's URL; empty: there are none.
    :ivar retry_seconds: the web server asks to be left alone for so long (Retry-After); 0: it does not.
    :ivar files: of a batch: what was stored of it, ``file`` being the id of the first
        (:func:`lcc.model.content_batches.write_stored`).
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
    revalidate: bool = False
    unchanged: str = ""
    owed_ms: int = attrs.field(default=0, metadata={"wire": "owed"})
    retry_seconds: int = attrs.field(default=0, metadata={"wire": "retry"})
    moved: str = ""
    files: str = ""

    def result(self, key: bytes, machine: int) -> FetchResult:
        """What the store records.

        :param key: the URL's key, which :attr:`key` is the hexadecimal form of.
        :param machine: that has fetched it.
        :raises StreamError: it tells neither content nor an error, or of a batch what makes no sense.
        """
        if not (self.code or self.unchanged or self.file):
            raise StreamError("syntax", "neither content nor an error")
        if self.files:
            try:
                read_stored(self.files, min(FILES_MAX, self.files.count(",") + 1))
            except ValueError as error:
                raise StreamError("syntax", str(error)) from None
            if self.file is None:
                raise StreamError("syntax", "files of a batch without an id")
        values = [*_result_values(self)]
        values[_KEY] = key
        values[_MACHINE] = None if self.file is None else machine
        return FetchResult._make(values)


_result_values = attrgetter(*FetchResult._fields)
_KEY, _MACHINE = map(FetchResult._fields.index, ("key", "machine"))


@attrs.frozen
class Deleted(Flat):
    """The file of this delete order is gone (also when it was not there)."""

    TAG = "deleted"
    id: int


@attrs.frozen
class Checked(Flat):
    """The answer to :class:`Verify`."""

    TAG = "checked"
    file: int
    ok: bool


@attrs.frozen
class MachineHello(Hello):
    """The BOT-M of a machine behind a central one has connected: its hello, as it said it to the one above it.

    :ivar machine: its machine id.
    :ivar via: names of the BOT-Ms on the way to it, from the central one down, separated by spaces.
    """

    TAG = "machine"
    via: str = ""


@attrs.frozen
class Gone(Flat):
    """The connection to the BOT-M of this machine is lost."""

    TAG = "gone"
    machine: int


@attrs.frozen
class Drop(Flat):
    """End the connection to the BOT-M of this machine: it said what makes no sense, or is there twice."""

    TAG = "drop"
    machine: int


DOWN = Vocabulary(
    Fetch, Recall, Delete, RecordedUpto, Mark, Names, Settled, Verify, Intact, Drop, Ping, often=[Fetch]
)
UP = Vocabulary(Running, Ready, Capacity, Robots, Done, Deleted, Checked, MachineHello, Gone, Ping, often=[Done])


def addressed(message: Flat, machine: int, session: str = "") -> str:
    """The element of a message from, or to, a machine, for a wire that several machines share.

    :param session: the connection of the machine that it is meant for; empty: for whichever there is.
    """
    text = message.to_xml()
    # Some speak of their machine anyway.
    address = "" if getattr(message, "machine", None) else f' machine="{machine}"'
    if session:
        address += f" session={quoted(session)}"
    return f"{text[:-2]}{address}/>" if address else text


def addressee(tag: str, attributes: dict[str, str]) -> int:
    """The machine that an element on such a wire is from, or to; 0: it does not say.

    :raises StreamError: it names none.
    """
    text = attributes.get("machine", "0")
    try:
        return parse_number(text, ID_MAX)
    except ValueError:
        raise StreamError("syntax", f"<{tag}> with machine={text[:80]!r}") from None


def session_of(attributes: dict[str, str]) -> str:
    """The connection of the machine that an element downwards is meant for; empty: it does not say, as those of an
    older version, and those of wires that lead to one machine."""
    return attributes.get("session", "")
