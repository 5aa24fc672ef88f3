"""One event, one line, one object; and nothing in it that the log as text would not show."""

from __future__ import annotations

import io
import json
import os
import signal
from typing import Any

import pytest
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from lcc.services.process.jsonlog import FIELD_CHARS, MESSAGE_CHARS, json_line


def logged(log: Any) -> dict[str, Any]:
    """What one event becomes.

    :param log: called with a logger.
    """
    events: list[dict[str, Any]] = []
    log(Logger(namespace="lcc.test", observer=events.append))
    (event,) = events
    line = json_line(event, "uns")
    assert line.endswith("}\n") and line.count("\n") == 1 and line.isascii()
    found: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
    return found


class Secret:
    """Shows only what it wants to be shown."""

    password = "canary"

    def __str__(self) -> str:
        return "<secret>"

    def __repr__(self) -> str:
        return f"Secret({self.password})"


class Unwilling:
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("canary")

    __repr__ = __str__


def test_an_event() -> None:
    found = logged(
        lambda log: log.warn("{count} sets of {peer}", count=3, peer="a\nb \x1b[31m \N{SNOWMAN}", more=None)
    )
    assert found["time"].endswith("+00:00")
    assert {name: found[name] for name in ("level", "role", "namespace", "message", "fields")} == {
        "level": "warn",
        "role": "uns",
        "namespace": "lcc.test",
        "message": "3 sets of a\nb \x1b[31m \N{SNOWMAN}",
        "fields": {"count": 3, "peer": "a\nb \x1b[31m \N{SNOWMAN}", "more": None},
    }


def test_of_objects_only_what_the_message_shows() -> None:
    found = logged(lambda log: log.info("{shown} {shown!r:.3}", shown=Secret(), hidden=Secret()))
    assert found["fields"] == {"shown": "<secret>"}
    assert "canary" not in json.dumps(found)
    assert "fields" not in logged(lambda log: log.info("{it.password[0]}", it=Secret()))
    found = logged(lambda log: log.info("{it!r}", it=["a"]))
    assert found["fields"] == {"it": "['a']"}


def test_what_cannot_be_shown_is_no_reason_to_fail() -> None:
    found = logged(lambda log: log.info("{it}", it=Unwilling()))
    assert "cannot be shown" in found["fields"]["it"]
    found = logged(lambda log: log.info("{odd", odd=float("nan"), more=float("inf"), half="\ud800"))
    assert found["fields"] == {"odd": "nan", "more": "inf", "half": "\ud800"}


def test_a_failure_has_its_traceback_in_a_field() -> None:
    def fail(log: Logger) -> None:
        try:
            raise ValueError("of this one")
        except ValueError:
            log.failure("It has failed", failure=Failure())

    found = logged(fail)
    assert found["level"] == "critical" and found["message"] == "It has failed"
    assert "ValueError: of this one" in found["traceback"] and "test_jsonlog.py" in found["traceback"]


def test_long_texts_are_cut() -> None:
    found = logged(lambda log: log.info("{text}", text="x" * 100_000))
    assert len(found["message"]) < MESSAGE_CHARS + 50 and len(found["fields"]["text"]) < FIELD_CHARS + 50
    assert found["message"].endswith(f"and {100_000 - MESSAGE_CHARS} characters more")


def test_events_in_twisteds_old_way() -> None:
    event = {"log_format": "{log_text}", "log_text": "old", "log_level": LogLevel.info, "isError": 0, "system": "-"}
    event |= {"message": ("old",), "time": 1.0, "log_namespace": "log_legacy", "log_time": 1.5}
    assert json.loads(json_line(event, "bot")) == {
        "time": "1970-01-01T00:00:01.500000+00:00",
        "level": "info",
        "role": "bot",
        "namespace": "log_legacy",
        "message": "old",
    }


def test_it_goes_where_the_log_would_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from lcc.services.process import jsonlog

    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    for options in ({"nodaemon": True}, {"nodaemon": True, "logfile": "-"}):
        jsonlog.choose("qm", options)
        jsonlog.observer()({"log_format": "here"})
    assert [json.loads(line)["role"] for line in out.getvalue().splitlines()] == ["qm", "qm"]
    jsonlog.choose("qm", {"nodaemon": False, "logfile": str(tmp_path / "x.log")})
    observer = jsonlog.observer()
    observer({"log_format": "there"})
    os.kill(os.getpid(), signal.SIGUSR1)
    observer({"log_format": "in another file"})
    observer._outFile.close()
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    said = [json.loads((tmp_path / name).read_text())["message"] for name in ("x.log.1", "x.log")]
    assert said == ["there", "in another file"]
