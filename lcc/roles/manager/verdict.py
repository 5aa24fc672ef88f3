"""How a job has ended, by what became of its process (seed 003, "Workers").  Pure."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

from lcc.model.tasks import MESSAGE_CHARS_MAX, JobState
from lcc.workers.api import DONE, PERMANENT, TEMPORARY
from lcc.workers.launch import DISK, LEASE_OVER, SECONDS, Limits, Report


class Told(NamedTuple):
    """Why the manager has ended a job.

    :ivar state: that it gets.
    :ivar text: why, for people.
    """

    state: JobState
    text: str


class Verdict(NamedTuple):
    """How a job has ended.

    :ivar exit_code: None: a signal ended it, or it was not started.
    :ivar signal: that ended it; 0: none.
    :ivar message: for people.
    """

    state: JobState
    exit_code: int | None
    signal: int
    message: str


def verdict(report: Report, told: Told | None, fault: str, limits: Limits, said: str) -> Verdict:
    """How a job has ended.

    :param told: why the manager has ended it; None: it has not.
    :param fault: what was wrong with what it said on descriptor 3, or why that could not be kept; empty: nothing.
    :param said: its last status, or else the last line of its output.
    """
    if report.status is None:
        return Verdict(JobState.TEMPORARY if report.again else JobState.PERMANENT, None, 0, _cut(report.refused))
    code = os.waitstatus_to_exitcode(report.status)
    exit_code, ended_by = (code, 0) if code >= 0 else (None, -code)
    state, text = _judged(report, told, code, limits)
    if fault and state is JobState.COMPLETED:
        state, text = JobState.PERMANENT, ""
    words = [*([text] if text else []), *([fault] if fault else []), *([said] if said else [])]
    if report.left and not report.why:
        words.append(f"killed what it had left behind: {report.left} process{'' if report.left == 1 else 'es'}")
    return Verdict(state, exit_code, ended_by, _cut("; ".join(words)))


def _judged(report: Report, told: Told | None, code: int, limits: Limits) -> tuple[JobState, str]:
    if report.why == SECONDS:
        return JobState.TEMPORARY, f"Timed out after {limits.seconds:g} seconds"
    if report.why == DISK:
        return JobState.PERMANENT, f"Used more than {limits.disk_bytes:,} bytes of disk"
    if report.why == LEASE_OVER:
        return JobState.TEMPORARY, "Ended because the manager lost its connection to the scheduler"
    if report.why and told is not None:
        return told.state, told.text
    if code < 0:
        return JobState.PERMANENT, f"Ended by {_signal_text(-code)}"
    if code == DONE:
        return JobState.COMPLETED, ""
    if code == PERMANENT:
        return JobState.PERMANENT, ""
    if code == TEMPORARY:
        return JobState.TEMPORARY, ""
    return JobState.TEMPORARY, f"Exit code {code}: the worker should be mended (0 done, 1 temporary, 2 permanent)"


def _signal_text(number_: int) -> str:
    try:
        name = signal.Signals(number_).name
    except ValueError:
        return f"signal {number_}"
    hints = {"SIGXFSZ": " (a file beyond file_bytes)", "SIGKILL": " (out of memory?)"}
    return f"signal {number_}, {name}{hints.get(name, '')}"


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS_MAX else text[: MESSAGE_CHARS_MAX - 1] + "…"
