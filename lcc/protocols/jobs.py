"""The wire between the scheduler and a manager.

The manager connects.  Each end opens one root element, whose attributes are its hello (the manager's says its host),
and then sends flat messages for as long as the connection lives::

    up    <kind …/>* <has …/>* <over …/>* <running …/>* <ready/>
                                                          once, first; the first two again whenever they change
          <heartbeat …/>                                  every few seconds: it counts them
          <started …/> <status …/>                        of a job that runs
          <ending …/> (<log …/> | <text …/> | <followup …/> | <notice …/>)* <end …/>
                                                          how a job ended, or what it commits; with all its effects
    down  <job …/>                                        run this
          <kill …/>                                       end this: it is not wanted any longer
          <heard …/>                                      answers the heartbeat of this number
          <recorded …/>                                   endings up to this number are stored

**Leases.**  A job that the scheduler gives out is the manager's as long as the manager is heard: the scheduler takes
it for lost ``lease_seconds`` after it *received* the last heartbeat; the manager ends it, and all its processes,
``lease_seconds`` after it *sent* the last heartbeat that was answered.  The second moment is never the later one, so
that an attempt has ended wherever it ran before the next one begins.

**A manager that was killed** and is started again waits until no process of its former runs exists, and says so of
each of them (``<over …/>``).  What they had, and have left no ending of, is lost at once, before their lease is over.

**Endings** have numbers, that count those of the manager's run.  The manager keeps each until it is recorded, and
says those that are not again, in order, on each new connection, after ``<ready/>``.  An ending that was recorded
already, or that is of an earlier attempt of its job, does nothing and is acknowledged like the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import attrs

from lcc.model.tasks import ARGUMENTS_BYTES_MAX
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import Ping, Ready

PIECE_CHARS = 16384
"""Of a long text in one message."""
HEARTBEAT_SECONDS = 5.0
KINDS_MAX = 100
"""Kinds that a manager may name."""
COMMANDS_MAX = 1000
"""Executables that a manager may name."""
RUNS_MAX = 16
"""Earlier runs that a manager may name."""
RUNNING_MAX = 200_000
"""Jobs that a manager may name, endings of its earlier runs included."""

OUTPUT, DATA, ITEM = "output", "data", "item"
TEXTS = (OUTPUT, DATA, ITEM)
"""What a :class:`Text` is a piece of."""


def write_args(args: tuple[str, ...]) -> str:
    """A list of texts as it stands in an attribute: JSON; empty: there are none."""
    return json.dumps(list(args), separators=(",", ":"), ensure_ascii=False) if args else ""


def read_args(text: str) -> tuple[str, ...]:
    """The list of texts of an attribute.

    :raises ValueError: it is none, or too long.
    """
    if not text:
        return ()
    try:
        found = json.loads(text)
        if type(found) is not list or any(type(each) is not str for each in found):
            raise ValueError
        if len(text.encode()) > ARGUMENTS_BYTES_MAX or any("\0" in each for each in found):
            raise ValueError
    except (ValueError, RecursionError):
        raise ValueError(f"no list of texts, or too long: {text[:80]!r}") from None
    return tuple(found)


# Down.


@attrs.frozen
class RunJob(Flat):
    """Run this.

    :ivar task: 0: it is of none.
    :ivar args: as :func:`write_args` writes them.
    :ivar lease_seconds: of all jobs; see the head of the module.
    :ivar data: that its task keeps; at most :data:`lcc.model.tasks.DATA_BYTES_MAX` bytes.
    :ivar input: what a built-in kind hands to its worker: a JSON object (where the changed content is); empty: none.
        At most :data:`lcc.model.tasks.INPUT_BYTES_MAX` bytes.
    :ivar resource: that it has; for its environment.
    """

    TAG = "job"
    id: int
    attempt: int
    task: int
    kind: str
    command: str
    lease_seconds: int
    args: str = ""
    data: str = ""
    input: str = ""
    resource: str = ""


@attrs.frozen
class Kill(Flat):
    """End this attempt (TERM, then KILL) and report it as a permanent error.  The answer to a job that the manager
    does not know is nothing.

    :ivar silent: the attempt is no longer wanted, nor its report: the scheduler knows of a later one.
    """

    TAG = "kill"
    id: int
    attempt: int
    reason: str = ""
    silent: bool = False


@attrs.frozen
class Heard(Flat):
    """The heartbeat of this number was received."""

    TAG = "heard"
    number: int


@attrs.frozen
class EndingsRecorded(Flat):
    """The endings of this run with numbers up to this one need not be kept any longer."""

    TAG = "recorded"
    number: int


# Up.


@attrs.frozen
class Kind(Flat):
    """So many jobs of this kind are run at once; the name ``*``: of each kind that is not named.

    :ivar jobs: 0: none, from now on.
    :ivar seconds, memory_bytes, files: a job's limits, for display; 0: none.
    """

    TAG = "kind"
    name: str
    jobs: int
    seconds: int = 0
    memory_bytes: int = attrs.field(default=0, metadata={"wire": "memory"})
    files: int = 0


@attrs.frozen
class Has(Flat):
    """An executable that is in this manager's folders; only jobs with such a command come to it.

    :ivar gone: it is there no longer.
    """

    TAG = "has"
    command: str
    gone: bool = False


@attrs.frozen
class RunningJob(Flat):
    """A job from before this connection still runs, or has ended and its ending follows."""

    TAG = "running"
    id: int
    attempt: int


@attrs.frozen
class RunOver(Flat):
    """This earlier run of the manager is over: no process of its jobs exists any longer."""

    TAG = "over"
    run: str


@attrs.frozen
class Heartbeat(Flat):
    """The manager lives.

    :ivar number: counts them, on this connection.
    :ivar jobs: that it has.
    :ivar paused: what an operator has paused, as words for a person: it takes nothing new.  Empty: nothing.
    """

    TAG = "heartbeat"
    number: int
    jobs: int = 0
    paused: str = ""


@attrs.frozen
class Started(Flat):
    """The process of a job has started.

    :ivar process: its id at the manager's host.
    """

    TAG = "started"
    id: int
    attempt: int
    process: int


@attrs.frozen
class JobStatus(Flat):
    """What a running job says of itself, for display."""

    TAG = "status"
    id: int
    attempt: int
    text: str


@attrs.frozen
class Ending(Flat):
    """A job has ended, or commits; its effects follow, up to ``<end/>``.  The fields are those of
    :class:`lcc.model.tasks.JobResult`.

    :ivar every_seconds: new period of its task; None: unchanged.
    """

    TAG = "ending"
    number: int
    id: int
    attempt: int
    state: str
    commit: int = 0
    exit_code: int | None = attrs.field(default=None, metadata={"wire": "exit"})
    signal: int = 0
    message: str = ""
    elapsed_ms: int = attrs.field(default=0, metadata={"wire": "ms"})
    cpu_ms: int = attrs.field(default=0, metadata={"wire": "cpu"})
    memory_bytes: int = attrs.field(default=0, metadata={"wire": "memory"})
    retry_after_seconds: int | None = attrs.field(default=None, metadata={"wire": "retry_after"})
    every_seconds: int | None = attrs.field(default=None, metadata={"wire": "every"})


@attrs.frozen
class Log(Flat):
    """A row of the job's log."""

    TAG = "log"
    time: int
    level: str
    text: str


@attrs.frozen
class Text(Flat):
    """A piece of a long text of the ending.

    :ivar of: one of :data:`TEXTS`; ``item`` may come many times, the others once.
    :ivar more: the next message has the next piece of the same text.
    """

    TAG = "text"
    of: str
    text: str
    more: bool = False


@attrs.frozen
class AddJob(Flat):
    """The job adds a follow-up; the fields are those of :class:`lcc.model.tasks.FollowUp`.

    :ivar on: as :func:`write_args` writes it.
    """

    TAG = "followup"
    kind: str
    command: str
    args: str = ""
    key: str = ""
    after_seconds: int = attrs.field(default=0, metadata={"wire": "after"})
    at_time: int | None = attrs.field(default=None, metadata={"wire": "at"})
    resource: str = ""
    on: str = ""
    data: str = ""


@attrs.frozen
class Notify(Flat):
    """The job notifies of a URL; the fields are those of :class:`lcc.model.tasks.JobNotice`."""

    TAG = "notice"
    url: str
    source: str
    op: str = "update"
    mimetype: str = ""


@attrs.frozen
class EndEnding(Flat):
    """The ending is complete.

    :ivar count: of the messages between ``<ending/>`` and this.
    """

    TAG = "end"
    count: int


DOWN = Vocabulary(RunJob, Kill, Heard, EndingsRecorded, Ping)
UP = Vocabulary(
    *(Kind, Has, RunOver, RunningJob, Ready, Heartbeat, Started, JobStatus),
    *(Ending, Log, Text, AddJob, Notify, EndEnding, Ping),
)


def pieces(of: str, text: str) -> Iterator[Text]:
    """A long text in messages; an empty one, too, is a message."""
    for start in range(0, max(len(text), 1), PIECE_CHARS):
        yield Text(of, text[start : start + PIECE_CHARS], start + PIECE_CHARS < len(text))
