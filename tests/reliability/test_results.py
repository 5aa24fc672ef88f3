"""What is reported of all runs is the sum of them, of those in which a promise was broken as well."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from . import __main__ as command
from . import repeating
from .oracle import Violation
from .results import Results
from .run import Broken, Plan


def report(violations: int, **judged: int) -> dict[str, Any]:
    return {
        "seed": 1,
        "backend": "sqlite",
        "kills": {"qm": 3, "bot": 4},
        "stills": {},
        "violations": violations,
        **judged,
        "rest_seconds": [2.0],
        "peaks_kb": {"qm": 70_000},
        "returns": {"qm": {"median": 1.0, "slowest": 2.0}},
        "seconds": 1800.0,
    }


def test_runs_add_up(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for each in (report(0, sets=5), report(2)):
        Results(path).add(each)
    results = Results(path)
    assert (results.kills(), results.kills("mariadb"), results.violations()) == (14, 0, 2)
    table = results.table()
    assert "2 runs, 1.0 hours, 14 kills, 0 times a process stood still, 2 violations" in table
    assert "sets: 5" in table


def test_runs_with_a_slow_link_count_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.jsonl"
    Results(path).add(report(0) | {"kills": {"qm": 500}})

    def ran(plan: Plan, tell: Any) -> dict[str, Any]:
        assert plan.slow_central and plan.kills == 5
        return report(0) | {"plan": {"slow_central": True}, "kills": {"qm": plan.kills}, "branches_reset": 40}

    monkeypatch.setattr(command, "run", ran)
    monkeypatch.setattr(repeating, "stop_in_order", lambda: None)
    arguments = ["kill-test", "--kills", "10", "--each", "5", "--slow-central", "--results", str(path)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert command.main() == 0
    results = Results(path)
    assert (results.kills(), results.kills(slow_central=True), results.kills("sqlite", slow_central=True)) == (
        510,
        10,
        10,
    )
    said = "2 runs, 10 kills, 80 times the connection of a BOT-M was reset, 0 violations"
    assert said in capsys.readouterr().out


def test_a_broken_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan, tell: Any) -> dict[str, Any]:
        error = Broken([Violation("P2", "a page is lost")], tmp_path)
        error.report = report(1)
        raise error

    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(command, "run", broken)
    monkeypatch.setattr(repeating, "stop_in_order", lambda: None)
    monkeypatch.setattr(sys, "argv", ["kill-test", "--kills", "100", "--results", str(path)])
    assert command.main() == 1
    assert (Results(path).kills(), Results(path).violations()) == (7, 1)
    # It is not forgotten when the next one goes well.
    monkeypatch.setattr(command, "run", lambda plan, tell: report(0) | {"kills": {"qm": 93}})
    assert command.main() == 1
