"""What a worker says on its descriptor 3, and what it is answered (doc/workers.md).

A request is a small XML document, an element without content; each has one answer, a document of one line.  They come
one after the other on one connection, so a shell script can send each with a process of its own (``lcc-job``)::

    worker    <status text="12 of 40 pages"/>
    manager   <ok/>
    worker    <show/>
    manager   <job id="7" task="3" kind="command" attempt="1" …/>

``job`` in a request is optional; where it names another job than the one that the descriptor belongs to, the request
is refused.  All but ``show``, ``status`` and ``log`` are effects: they count when the worker exits with 0, or at its
``commit``.  This module is the manager's; what workers use is in ``lcc.workers``, and imports less.
"""

from __future__ import annotations

import attrs

from lcc.model.tasks import ARGUMENTS_BYTES_MAX, DATA_BYTES_MAX
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.xmlfeed import FeedLimits

ITEM_BYTES_MAX = 1 << 20
"""Of an item that is stored, in UTF-8."""
_ESCAPED = 6
"""The most characters that stand for one."""
WORKER_LIMITS = FeedLimits(
    document_bytes=_ESCAPED * ITEM_BYTES_MAX + ARGUMENTS_BYTES_MAX,
    token_bytes=_ESCAPED * ITEM_BYTES_MAX + ARGUMENTS_BYTES_MAX,
    depth=1,
    attribute_count=20,
    value_chars=ITEM_BYTES_MAX,
    text_chars=0,
    name_count=40,
    name_chars=40,
    prolog_bytes=4096,
)
"""The feed of descriptor 3."""


@attrs.frozen
class Show(Flat):
    """Asks what the job is; the answer is a :class:`ShownJob`."""

    TAG = "show"
    job: int | None = None


@attrs.frozen
class Status(Flat):
    """How far it is, for people."""

    TAG = "status"
    text: str
    job: int | None = None


@attrs.frozen
class LogLine(Flat):
    """A row of the job's log; kept however the job ends.

    :ivar level: one of :data:`lcc.model.tasks.LOG_LEVELS`.
    """

    TAG = "log"
    text: str
    level: str = "info"
    job: int | None = None


@attrs.frozen
class Period(Flat):
    """The period of the job's task from now on."""

    TAG = "period"
    seconds: int
    job: int | None = None


@attrs.frozen
class Retry(Flat):
    """After what time it wishes to be tried again, if it ends with a temporary error; said before it ends so."""

    TAG = "retry"
    seconds: int
    job: int | None = None


@attrs.frozen
class Add(Flat):
    """A follow-up: a job that is run later.

    :ivar args: a JSON list of texts.
    :ivar key: the job is added once, however often jobs of this task add it; empty: its content is its key.
    :ivar after_seconds: from the moment when this takes effect.
    :ivar at_time: when, in seconds since 1970, in place of that.
    :ivar resource: that it needs; None: that of the job; empty: none.
    :ivar on: where it may run: a JSON list of ``allow:HOST`` and ``deny:HOST``.
    """

    TAG = "add"
    command: str = ""
    args: str = ""
    kind: str = "command"
    key: str = ""
    after_seconds: int = attrs.field(default=0, metadata={"wire": "after"})
    at_time: int | None = attrs.field(default=None, metadata={"wire": "at"})
    resource: str | None = None
    on: str = ""
    data: str = ""
    job: int | None = None


@attrs.frozen
class NotifyUrl(Flat):
    """Notifies the LCC of a URL; the fields are those of :class:`lcc.model.tasks.JobNotice`."""

    TAG = "notify"
    url: str
    source: str = "link"
    op: str = "update"
    mimetype: str = ""
    job: int | None = None


@attrs.frozen
class Store(Flat):
    """Stores an item, or what the task keeps for its next job; one of the two.

    :ivar item: a JSON object.
    :ivar data: at most :data:`lcc.model.tasks.DATA_BYTES_MAX` bytes.
    """

    TAG = "store"
    item: str | None = None
    data: str | None = None
    job: int | None = None


@attrs.frozen
class Commit(Flat):
    """Has everything so far take effect now; answered once it has."""

    TAG = "commit"
    job: int | None = None


@attrs.frozen
class Ok(Flat):
    """It is done, or noted."""

    TAG = "ok"


@attrs.frozen
class Refused(Flat):
    """It is not done.

    :ivar code: a word for programs: ``invalid``, ``too-much``, ``not-yours`` or ``failed``.
    :ivar text: for people.
    """

    TAG = "error"
    code: str
    text: str


@attrs.frozen
class ShownJob(Flat):
    """What a job is.

    :ivar task: 0: it is of none.
    :ivar args: a JSON list of texts.
    :ivar data: what its task keeps.
    :ivar input: what a built-in kind hands to its worker: a JSON object; empty: nothing.
    :ivar seconds: its time limit, counted from its start; 0: none.
    :ivar manager: name of the manager that has started it.
    """

    TAG = "job"
    id: int
    task: int
    kind: str
    attempt: int
    command: str = ""
    args: str = ""
    resource: str = ""
    data: str = ""
    input: str = ""
    seconds: int = 0
    manager: str = ""


REQUESTS = Vocabulary(Show, Status, LogLine, Period, Retry, Add, NotifyUrl, Store, Commit)
assert DATA_BYTES_MAX <= ITEM_BYTES_MAX
