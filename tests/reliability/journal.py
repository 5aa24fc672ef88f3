"""What the providers of a kill test and their web server have seen, event by event: a file of JSON lines.

Written by :mod:`world`, read by :mod:`oracle`.  Each event has ``e``, its kind, and ``t``, the time:

* ``set``: a set is about to be sent: ``n`` (its number), ``pid``, ``uns`` (its port), ``full``, ``ops`` (``[id, name,
  kind, version]`` of each element; the kinds are those of :class:`Op`)
* ``welcome``: the UNS's greeting on the connection for set ``n``: ``seq``, ``count``, ``errors`` (``[code, id]``),
  ``wanted`` (a full set, why)
* ``drawn``: a notifier has an order number for its set ``n``: ``order``
* ``answer``: what came of set ``n``: ``how`` (ACCEPTED, REJECTED, UNSENT or UNKNOWN), ``code``, ``faults`` (``[code,
  id]``), ``received``
* ``ask``: a request has come: ``pid``, ``path``, ``agent`` (the robot), ``active`` (requests of the provider that are
  being answered, this one included), ``lag`` (by how much this process was late lately, in seconds)
* ``gave``: it was answered: ``pid``, ``path``, ``status``, ``bytes`` (of the body)
* ``site``: a newcomer's registration has begun: ``name`` of its site
* ``registered``: it has ended: ``name``, ``password``, ``pids`` of its answers (none: it has not waited)
* ``refused``: what a newcomer asked for was not answered with 200: ``status``, ``text``
* ``changed``: a page of a site (:mod:`sites`) is new, has changed, or is gone: ``pid``, ``name``, ``version``,
  ``exists``, ``listed`` (in its sitemap), ``item`` (of its feed)
* ``push``: a site is about to push: ``n``, ``pid``, ``names``; ``pushed``: what came of it: ``n``, ``status`` (0: no
  answer)
* ``heard``: the subscriber was told: ``changes`` (``[curl, change, state]``); ``unheard``: it was told something
  else: ``why``
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

UPDATE, IF_ABSENT, DELETE, REFUSED = "u", "a", "d", "x"

ACCEPTED = "accepted"
REJECTED = "rejected"
UNSENT = "unsent"
"""No answer, and the set's end was never sent (or never delivered: the connection was cut on purpose)."""
UNKNOWN = "unknown"
"""No answer, but the whole set was sent: it may have been accepted."""


class JournalWriter:
    """Appends events."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def note(self, kind: str, **values: Any) -> None:
        """One event."""
        self._file.write(json.dumps({"e": kind, "t": round(time.time(), 3), **values}) + "\n")


@attrs.frozen
class Op:
    """What one element of a set says.

    :ivar id: stands in the element, too, and comes back with its errors.
    :ivar name: of the page, below the provider's root.
    :ivar kind: UPDATE, IF_ABSENT, DELETE, or REFUSED: an element that the UNS must refuse.
    :ivar version: that the page had when it was told.
    """

    id: str
    name: str
    kind: str
    version: int


@attrs.define
class ToldSet:
    """A set, and what came of it.

    :ivar time: when its connection was begun.
    :ivar seq: number of its connection; 0: nobody has greeted.
    :ivar welcomed: when it was greeted: the set began after that.
    :ivar answered: when its answer had come, or was waited for no longer.
    """

    number: int
    pid: int
    uns: int
    full: bool
    ops: dict[str, Op]
    time: float
    seq: int = 0
    how: str = UNSENT
    code: int = 0
    faults: tuple[tuple[int, str], ...] = ()
    received: int = 0
    welcomed: float = 0.0
    answered: float = float("inf")
    drawn: float | None = None
    """When a notifier had its order number; None: it is a provider's own."""


@attrs.frozen
class Welcome:
    """What a provider was greeted with."""

    pid: int
    time: float
    seq: int
    count: int
    errors: tuple[tuple[int, str], ...]
    wanted: str


@attrs.frozen
class Asked:
    """A request for a page."""

    pid: int
    path: str
    time: float
    agent: str
    active: int
    lag: float


@attrs.frozen
class Gave:
    """An answer of the web server."""

    pid: int
    path: str
    time: float
    status: int
    bytes: int


@attrs.frozen
class Changed:
    """A page of a site as it is from then on.

    :ivar listed: it stands in the sitemap; ``item``: in the feed.
    """

    time: float
    version: int
    exists: bool
    listed: bool
    item: bool


@attrs.define
class Push:
    """What a site pushed.

    :ivar status: of the answer; 0: there was none.
    """

    pid: int
    names: tuple[str, ...]
    time: float
    status: int = 0


@attrs.define
class Newcomer:
    """Who has registered a site.

    :ivar pids: ids that the answers had; empty: it has not waited for one.
    """

    name: str
    pids: tuple[int, ...] = ()
    password: str = ""


@attrs.define
class Journal:
    """All of it, read.

    :ivar refused: status -> how often a newcomer was answered with it.
    :ivar pages: provider and name of a page -> what became of it.
    :ivar heard: curl -> change and state, as the subscriber heard of it last; ``deliveries``: how often it heard.
    """

    sets: dict[int, ToldSet] = attrs.field(factory=dict)
    welcomes: list[Welcome] = attrs.field(factory=list)
    asked: list[Asked] = attrs.field(factory=list)
    gave: list[Gave] = attrs.field(factory=list)
    newcomers: dict[str, Newcomer] = attrs.field(factory=dict)
    refused: Counter[int] = attrs.field(factory=Counter)
    pages: dict[tuple[int, str], list[Changed]] = attrs.field(factory=dict)
    pushes: dict[int, Push] = attrs.field(factory=dict)
    heard: dict[str, tuple[int, str]] = attrs.field(factory=dict)
    deliveries: int = 0
    unheard: list[str] = attrs.field(factory=list)

    @classmethod
    def read(cls, path: Path) -> Journal:
        """What stands in a file."""
        journal = cls()
        with path.open() as lines:
            for event in map(json.loads, lines):
                journal.take(event)
        return journal

    def take(self, event: dict[str, Any]) -> None:
        """One event."""
        when = event["t"]
        match event["e"]:
            case "set":
                ops = {name: Op(id, name, kind, version) for id, name, kind, version in event["ops"]}
                self.sets[event["n"]] = ToldSet(event["n"], event["pid"], event["uns"], event["full"], ops, when)
            case "welcome":
                told = self.sets[event["n"]]
                told.seq, told.welcomed = event["seq"], when
                errors = tuple((code, id) for code, id in event["errors"])
                self.welcomes.append(Welcome(told.pid, when, event["seq"], event["count"], errors, event["wanted"]))
            case "drawn":
                told = self.sets[event["n"]]
                told.seq, told.welcomed, told.drawn = event["order"], told.time, when
            case "site":
                self.newcomers[event["name"]] = Newcomer(event["name"])
            case "registered":
                self.newcomers[event["name"]] = Newcomer(event["name"], tuple(event["pids"]), event["password"])
            case "refused":
                self.refused[event["status"]] += 1
            case "answer":
                told = self.sets[event["n"]]
                told.how, told.code, told.received = event["how"], event["code"], event["received"]
                told.answered = when
                told.faults = tuple((code, id) for code, id in event["faults"])
            case "ask":
                self.asked.append(
                    Asked(event["pid"], event["path"], when, event["agent"], event["active"], event["lag"])
                )
            case "changed":
                values = (event[name] for name in ("version", "exists", "listed", "item"))
                self.pages.setdefault((event["pid"], event["name"]), []).append(Changed(when, *values))
            case "push":
                self.pushes[event["n"]] = Push(event["pid"], tuple(event["names"]), when)
            case "pushed":
                self.pushes[event["n"]].status = event["status"]
            case "heard":
                self.deliveries += 1
                for curl, change, state in event["changes"]:
                    if change > self.heard.get(curl, (0, ""))[0]:
                        self.heard[curl] = change, state
            case "unheard":
                self.unheard.append(event["why"])
            case "gave":
                self.gave.append(Gave(event["pid"], event["path"], when, event["status"], event["bytes"]))

    def of(self, pid: int) -> Iterator[ToldSet]:
        """The sets of a provider, in no order."""
        return (told for told in self.sets.values() if told.pid == pid)
