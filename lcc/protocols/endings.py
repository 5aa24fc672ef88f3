"""Endings of jobs with their effects, as messages (:mod:`lcc.protocols.jobs`) and back."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from lcc.errors import StreamError
from lcc.model.tasks import (
    DATA_BYTES_MAX,
    KEY_CHARS_MAX,
    LOG_LEVELS,
    MESSAGE_CHARS_MAX,
    NAME_CHARS_MAX,
    OUTPUT_BYTES_MAX,
    Effects,
    FollowUp,
    JobNotice,
    JobResult,
    JobSpec,
    JobState,
    LogRow,
)
from lcc.protocols.flat import Flat
from lcc.protocols.jobs import (
    DATA,
    ITEM,
    OUTPUT,
    TEXTS,
    AddJob,
    EndEnding,
    Ending,
    Log,
    Notify,
    Text,
    pieces,
    read_args,
    write_args,
)

_ENDINGS = {
    state.value: state for state in (JobState.RUNNING, JobState.COMPLETED, JobState.TEMPORARY, JobState.PERMANENT)
}
_SECONDS_MAX = 10 * 366 * 86400


def write_ending(number: int, result: JobResult) -> Iterator[Flat]:
    """The messages of an ending, one after the other, so that a large one need not be in memory as a whole twice."""
    effects = result.effects
    yield Ending(
        number,
        result.id,
        result.attempt,
        result.state.value,
        result.commit,
        result.exit_code,
        result.signal,
        result.message[:MESSAGE_CHARS_MAX],
        round(result.seconds * 1000),
        round(result.cpu_seconds * 1000),
        result.memory_bytes,
        result.retry_after_seconds,
        effects.every_seconds,
    )
    count = 0
    for message in _effects(result.output, effects):
        count += 1
        yield message
    yield EndEnding(count)


def _effects(output: str, effects: Effects) -> Iterator[Flat]:
    if output:
        yield from pieces(OUTPUT, output)
    if effects.data is not None:
        yield from pieces(DATA, effects.data)
    for row in effects.logs:
        yield Log(row.time, row.level, row.text[:MESSAGE_CHARS_MAX])
    for added in effects.followups:
        yield write_followup(added)
    for notice in effects.notices:
        yield Notify(notice.url, notice.source, notice.op, notice.mimetype)
    for item in effects.items:
        yield from pieces(ITEM, item)


def write_followup(added: FollowUp) -> AddJob:
    """The message that adds a job."""
    spec = added.spec
    return AddJob(
        spec.kind,
        spec.command,
        write_args(spec.args),
        added.key,
        added.after_seconds,
        added.at_time,
        spec.resource,
        write_args(spec.on),
        spec.data,
    )


def read_followup(message: AddJob) -> FollowUp:
    """The job that it adds.

    :raises ValueError: saying what is wrong with it.
    """
    for what, name in (("kind", message.kind), ("command", message.command), ("resource", message.resource)):
        _within(f"a follow-up with a {what}", name, NAME_CHARS_MAX)
    _within("a follow-up with a key", message.key, KEY_CHARS_MAX)
    if not message.kind or not 0 <= message.after_seconds <= _SECONDS_MAX:
        raise ValueError(f"a follow-up without a kind, or after {message.after_seconds} seconds")
    _check_data(message.data)
    spec = JobSpec(
        message.kind,
        message.command,
        read_args(message.args),
        message.resource,
        read_args(message.on),
        message.data,
    )
    return FollowUp(spec, message.key, message.after_seconds, message.at_time)


class EndingReader:
    """Puts an ending together from its messages.

    What is wrong with the effects is a permanent error of the job, which then has none: were it one of the
    connection, the manager would say the same again for ever.

    :param begins: its first message.
    :param chars_max: of all its texts together.
    :ivar number: of the ending.
    :ivar chars: of its texts, so far.
    :raises StreamError: the first message makes no sense.
    """

    def __init__(self, begins: Ending, chars_max: int) -> None:
        if begins.state not in _ENDINGS:
            raise StreamError("syntax", f"<{begins.TAG}> with state={begins.state[:80]!r}")
        if (begins.state == JobState.RUNNING.value) != (begins.commit > 0):
            raise StreamError("syntax", f"<{begins.TAG}> with state={begins.state!r} and commit={begins.commit}")
        self.number = begins.number
        self._begins = begins
        self._chars_max = chars_max
        self.chars = 0
        self._fault = ""
        self._count = 0
        self._logs: list[LogRow] = []
        self._followups: list[FollowUp] = []
        self._notices: list[JobNotice] = []
        self._items: list[str] = []
        self._output = ""
        self._data: str | None = None
        self._pieces: list[str] = []
        self._had: set[str] = set()
        self._of = ""

    def add(self, message: Flat) -> JobResult | None:
        """The next message; what it says as a whole with the last one, ``<end/>``.

        :raises StreamError: it cannot stand here, or makes the ending too long.
        """
        if isinstance(message, EndEnding):
            return self._whole(message)
        self._count += 1
        if not isinstance(message, Text | Log | AddJob | Notify):
            raise StreamError("syntax", f"<{message.TAG}> in an ending")
        if self._of and not isinstance(message, Text):
            raise StreamError("syntax", f"<{message.TAG}> where the next piece of a text of {self._of!r} belongs")
        if isinstance(message, Text):
            self._check_place(message)
        if not self._fault:
            try:
                self._add(message)
            except ValueError as error:
                self._fault = f"Effects refused: {error}"
                self._forget()
        return None

    def _check_place(self, message: Text) -> None:
        of = message.of
        if of not in TEXTS or of in self._had or (self._of and of != self._of):
            raise StreamError("syntax", f"<{message.TAG}> of {of[:80]!r}")
        self._of = of if message.more else ""
        if not message.more and of != ITEM:
            self._had.add(of)

    def _add(self, message: Text | Log | AddJob | Notify) -> None:
        if isinstance(message, Text):
            self._add_text(message)
        elif isinstance(message, Log):
            self._take(len(message.text) + 50)
            level = message.level if message.level in LOG_LEVELS else "info"
            self._logs.append(LogRow(message.time, level, message.text[:MESSAGE_CHARS_MAX]))
        elif isinstance(message, AddJob):
            self._take(len(message.args) + len(message.data) + len(message.on) + 500)
            self._followups.append(read_followup(message))
        else:
            self._take(len(message.url) + len(message.mimetype) + 50)
            self._notices.append(JobNotice(message.url, message.source, message.op, message.mimetype))

    def _add_text(self, message: Text) -> None:
        self._take(len(message.text) + 50)
        self._pieces.append(message.text)
        if message.more:
            return
        text = "".join(self._pieces)
        self._pieces = []
        if message.of == ITEM:
            self._items.append(text)
        elif message.of == DATA:
            _check_data(text)
            self._data = text
        else:
            self._output = text[-OUTPUT_BYTES_MAX:]

    def _forget(self) -> None:
        self._logs, self._followups, self._notices, self._items, self._pieces = [], [], [], [], []

    def _take(self, chars: int) -> None:
        self.chars += chars
        if self.chars > self._chars_max:
            raise ValueError("more than are allowed at once")

    def _whole(self, end: EndEnding) -> JobResult:
        if end.count != self._count or self._of:
            raise StreamError("syntax", f"<{end.TAG}> with count={end.count} after {self._count} messages")
        begins = self._begins
        result = JobResult(
            begins.id,
            begins.attempt,
            _ENDINGS[begins.state],
            begins.commit,
            begins.exit_code,
            begins.signal,
            begins.message[:MESSAGE_CHARS_MAX],
            begins.elapsed_ms / 1000,
            begins.cpu_ms / 1000,
            begins.memory_bytes,
            begins.retry_after_seconds,
            self._output,
        )
        if self._fault:
            # A commit that is refused: the job is told so by its end, which nothing of it goes before.
            return attrs.evolve(result, state=JobState.PERMANENT, commit=0, message=self._fault[:MESSAGE_CHARS_MAX])
        return attrs.evolve(
            result,
            effects=Effects(
                tuple(self._logs),
                tuple(self._followups),
                tuple(self._notices),
                tuple(self._items),
                self._data,
                begins.every_seconds,
            ),
        )


def _within(what: str, text: str, chars_max: int) -> None:
    if len(text) > chars_max:
        raise ValueError(f"{what} of more than {chars_max} characters")


def _check_data(data: str) -> None:
    if len(data.encode()) > DATA_BYTES_MAX:
        raise ValueError(f"data of more than {DATA_BYTES_MAX} bytes")
