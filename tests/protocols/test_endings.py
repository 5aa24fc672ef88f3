"""Endings of jobs: what is written is read, and what is wrong with them is the job's own error."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import StreamError
from lcc.model.tasks import Effects, FollowUp, JobNotice, JobResult, JobSpec, JobState, LogRow
from lcc.protocols import jobs
from lcc.protocols.endings import EndingReader, write_ending
from lcc.protocols.flat import Flat
from lcc.protocols.hello import INTERNAL_LIMITS
from lcc.protocols.xmlfeed import NAMESPACE, Start, XmlFeed

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20)
ARGS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), max_size=3)
SECONDS = st.integers(0, 10**6)
SPECS = st.builds(
    JobSpec, TEXTS.filter(bool), TEXTS, ARGS.map(tuple), TEXTS, st.lists(TEXTS, max_size=2).map(tuple), TEXTS
)
EFFECTS = st.builds(
    Effects,
    st.lists(st.builds(LogRow, SECONDS, st.sampled_from(["debug", "info", "warn", "error"]), TEXTS)).map(tuple),
    st.lists(st.builds(FollowUp, SPECS, TEXTS, SECONDS, st.none() | SECONDS), max_size=3).map(tuple),
    st.lists(st.builds(JobNotice, TEXTS, TEXTS, TEXTS, TEXTS), max_size=3).map(tuple),
    st.lists(TEXTS | TEXTS.map(lambda text: text * 2000), max_size=3).map(tuple),
    st.none() | TEXTS,
    st.none() | SECONDS,
)
ENDED = [JobState.COMPLETED, JobState.TEMPORARY, JobState.PERMANENT]
RESULTS = st.builds(
    JobResult,
    id=st.integers(1, 2**60),
    attempt=st.integers(1, 99),
    state=st.sampled_from(ENDED),
    exit_code=st.none() | st.integers(0, 255),
    signal=st.integers(0, 64),
    message=TEXTS,
    seconds=SECONDS.map(lambda ms: ms / 1000),
    cpu_seconds=SECONDS.map(lambda ms: ms / 1000),
    memory_bytes=SECONDS,
    retry_after_seconds=st.none() | SECONDS,
    output=TEXTS | TEXTS.map(lambda text: text * 1000),
    effects=EFFECTS,
)


def over_the_wire(messages: list[Flat]) -> list[Flat]:
    feed = XmlFeed(INTERNAL_LIMITS)
    feed.receive(f'<l:stream xmlns:l="{NAMESPACE}">'.encode())
    events = feed.receive("".join(message.to_xml() for message in messages).encode())
    return [jobs.UP.read(event.name, event.attributes) for event in events if isinstance(event, Start)]


def read(messages: list[Flat], chars_max: int = 10**6) -> JobResult:
    first, *others, last = over_the_wire(messages)
    assert isinstance(first, jobs.Ending)
    reader = EndingReader(first, chars_max)
    assert [reader.add(message) for message in others] == [None] * len(others)
    result = reader.add(last)
    assert result is not None
    return result


@given(RESULTS)
def test_what_is_written_is_read(result: JobResult) -> None:
    assert read(list(write_ending(7, result))) == result


def test_a_commit() -> None:
    commit = JobResult(3, 1, JobState.RUNNING, 2, effects=Effects(items=("{}",), data=""))
    assert read(list(write_ending(7, commit))) == commit


LARGE = JobSpec(args=("a" * 20000,))


@pytest.mark.parametrize(
    ("effects", "words"),
    [
        (Effects(items=("x" * 700, "x" * 400)), "more than are allowed at once"),
        (Effects(data="x" * 16385), "data of more than 16384 bytes"),
        (Effects(followups=(FollowUp(LARGE),)), "no list of texts, or too long"),
        (
            Effects(
                followups=(
                    FollowUp(
                        JobSpec(""),
                    ),
                )
            ),
            "without a kind",
        ),
        (Effects(followups=(FollowUp(JobSpec(), "k" * 256),)), "a key of more than 255 characters"),
    ],
)
def test_bad_effects_are_the_jobs_own_error(effects: Effects, words: str) -> None:
    logs = (LogRow(1, "info", "text"),)
    written = JobResult(3, 1, JobState.COMPLETED, output="out", effects=attrs.evolve(effects, logs=logs))
    limit = 1000 if effects.items else 10**6
    found = read(list(write_ending(1, written)), limit)
    assert found.state is JobState.PERMANENT and words in found.message
    assert found.effects == Effects()


ENDING = jobs.Ending(1, 1, 1, "completed")


@pytest.mark.parametrize(
    "messages",
    [
        [jobs.Heartbeat(1)],
        [jobs.Text("other", "x")],
        [jobs.Text("data", "x"), jobs.Text("data", "y")],
        [jobs.Text("data", "x", more=True), jobs.Text("item", "y")],
        [jobs.Text("data", "x", more=True), jobs.Log(1, "info", "y")],
        [jobs.EndEnding(1)],
        [jobs.Text("item", "x", more=True), jobs.EndEnding(1)],
    ],
)
def test_what_cannot_stand_there_ends_the_connection(messages: list[Flat]) -> None:
    reader = EndingReader(ENDING, 10**6)
    with pytest.raises(StreamError):
        for message in messages:
            reader.add(message)


@pytest.mark.parametrize(
    "begins",
    [attrs.evolve(ENDING, state="lost"), attrs.evolve(ENDING, commit=1), attrs.evolve(ENDING, state="running")],
)
def test_an_ending_of_no_sense(begins: jobs.Ending) -> None:
    with pytest.raises(StreamError):
        EndingReader(begins, 1000)


def test_the_longest_messages_pass_the_limits_of_the_wire() -> None:
    worst = '"&' * 8192
    job = jobs.RunJob(1, 1, 1, "k", "c", 60, jobs.write_args(("\"'&" * 3000,)), worst, worst[:8192])
    text = jobs.Text("item", "<\"'" * 5461)
    for vocabulary, message in ((jobs.DOWN, job), (jobs.UP, text)):
        feed = XmlFeed(INTERNAL_LIMITS)
        feed.receive(f'<l:stream xmlns:l="{NAMESPACE}">'.encode())
        start = feed.receive(message.to_xml().encode())[0]
        assert isinstance(start, Start) and vocabulary.read(start.name, start.attributes) == message


@given(ARGS.map(tuple))
def test_arguments(args: tuple[str, ...]) -> None:
    assert jobs.read_args(jobs.write_args(args)) == args


@pytest.mark.parametrize("text", ["{}", "[1]", "[", '["\\u0000"]', "[" * 100_000, '["' + "a" * 16384 + '"]'])
def test_bad_arguments(text: str) -> None:
    with pytest.raises(ValueError, match="no list of texts, or too long"):
        jobs.read_args(text)
