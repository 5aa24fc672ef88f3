"""Logs for programs: one JSON object a line (``[log] format = "json"``).

Each has ``time`` (UTC), ``level``, ``role``, ``namespace`` (where in the program) and ``message``; where there are
any, ``fields`` (what the message was made of) and ``traceback``.  Nothing stands there that the log as text would not
show, but for numbers and texts that were given with an event and are not in its message.
"""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from string import Formatter
from typing import Any

from twisted.logger import FileLogObserver, LogEvent, formatEvent
from twisted.python.logfile import LogFile

FACTORY = "lcc.services.process.jsonlog.observer"
"""For ``twistd --logger``."""
MESSAGE_CHARS = 16_384
FIELD_CHARS = 2_048
TRACEBACK_CHARS = 65_536
_OF_TWISTED = frozenset(
    ["failure", "format", "isError", "logLevel", "message", "printed", "system", "time", "why", "warning", "category"]
)
"""Fields of events in Twisted's old way, which say again what stands elsewhere."""

_chosen: tuple[str, Mapping[str, Any]] = ("lcc", {})


def choose(role: str, options: Mapping[str, Any]) -> None:
    """What :func:`observer`, which takes no arguments, is to make.

    :param role: of this process.
    :param options: those of twistd.
    """
    global _chosen
    _chosen = role, options


def observer() -> FileLogObserver:
    """Where the log goes: as twistd has it without ``--logger``."""
    role, options = _chosen
    name = options.get("logfile") or ""
    if name == "-" or (options.get("nodaemon") and not name):
        return FileLogObserver(sys.stdout, lambda event: json_line(event, role))
    file: Any = LogFile.fromFullPath(name or "twistd.log")
    rotate = _rotation_wanted()

    def line(event: LogEvent) -> str:
        if rotate:
            rotate.clear()
            file.rotate()
        return json_line(event, role)

    return FileLogObserver(file, line)


def _rotation_wanted() -> list[int]:
    """Is not empty after a SIGUSR1, which has twistd begin another file; it is begun with the next line."""
    wanted: list[int] = []
    if not signal.getsignal(signal.SIGUSR1):
        signal.signal(signal.SIGUSR1, lambda number, _frame: wanted.append(number))
    return wanted


def json_line(event: LogEvent, role: str) -> str:
    """One event, with the end of its line."""
    level = event.get("log_level")
    seconds = event.get("log_time")
    shown: dict[str, Any] = {
        "time": None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds"),
        "level": getattr(level, "name", "info"),
        "role": role,
        "namespace": str(event.get("log_namespace", "-")),
        "message": _cut(formatEvent(event), MESSAGE_CHARS),
    }
    fields = _fields(event)
    if fields:
        shown["fields"] = fields
    if "log_failure" in event:
        shown["traceback"] = _cut(_traceback(event["log_failure"]), TRACEBACK_CHARS)
    return json.dumps(shown, allow_nan=False) + "\n"


def _fields(event: LogEvent) -> dict[str, Any]:
    in_message = _plain_names(event.get("log_format"))
    fields: dict[str, Any] = {}
    for name, value in event.items():
        if name.startswith("log_") or name in _OF_TWISTED:
            continue
        if value is None or isinstance(value, bool | int):
            fields[name] = value
        elif isinstance(value, float):
            fields[name] = value if math.isfinite(value) else str(value)
        elif isinstance(value, str):
            fields[name] = _cut(value, FIELD_CHARS)
        elif name in in_message:  # of another object only what the message shows of it
            fields[name] = _cut(_text(value, in_message[name]), FIELD_CHARS)
    return fields


def _plain_names(text: object) -> dict[str, str]:
    """Names that a format shows as a whole, and how (``!r`` and the like)."""
    try:
        parts = list(Formatter().parse(text)) if isinstance(text, str) else []
    except ValueError:
        parts = []
    return {name: how or "" for _, name, spec, how in parts if name and name.isidentifier() and not spec}


def _text(value: object, how: str) -> str:
    try:
        return repr(value) if how == "r" else ascii(value) if how == "a" else str(value)
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _traceback(failure: Any) -> str:
    try:
        return str(failure.getTraceback())
    except Exception as error:
        return f"<traceback that cannot be shown: {type(error).__name__}>"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]} … and {len(text) - chars} characters more"
