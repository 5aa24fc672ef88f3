"""A slice of ``make kill-spider``."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.support.servers.linked_sites import generate

from . import crawls, repeating
from .crawls import BACKENDS, DELAY_SECONDS, ROBOTS, ROLES, WORKER, Plan, rude, run
from .oracle import Violation
from .run import Broken

SEED = int(os.environ.get("LCC_KILL_SEED", "0")) or time.time_ns() % 100_000


def test_crawls_survive_a_few_kills() -> None:
    """One of two sites has a Crawl-delay, so that there is time for them; a slow machine may seem not to keep it."""
    print(f"LCC_KILL_SEED={SEED}")
    plan = Plan(
        SEED, "sqlite", kills=3, hosts=2, pages=7, pace_seconds=0.5, plain_share=0.0, late_seconds=DELAY_SECONDS
    )
    report = run(plan, print)
    print(report)
    assert report["kills"] and report["pages"] > 1, "it has done nothing"


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_crawls_survive_kills(backend: str) -> None:
    print(f"LCC_KILL_SEED={SEED}")
    print(run(Plan(SEED, backend, kills=40, pages=40), print))


def test_a_crawl_that_breaks_a_promise_is_added_to_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = {"kills": dict.fromkeys((*ROLES, WORKER), 3), "backend": "sqlite", "violations": 0}
    befores: list[Counter[str]] = []

    def ran(plan: Plan, tell: Any, before: Counter[str]) -> dict[str, Any]:
        befores.append(before)
        if len(befores) == 1:
            return report
        error = Broken([Violation("crawl", "the text store lacks a page")], tmp_path)
        error.report = report | {"violations": 1}
        raise error

    monkeypatch.setattr(crawls, "run", ran)
    monkeypatch.setattr(repeating, "stop_in_order", lambda: None)
    path = tmp_path / "results.jsonl"
    monkeypatch.setattr(sys, "argv", ["kill-spider", "--kills", "6", "--results", str(path)])
    assert crawls.main() == 1
    assert "the text store lacks a page" in capsys.readouterr().err
    assert befores[1] == report["kills"]
    assert crawls.main() == 1 and len(befores) == 2  # enough
    assert "2 runs" in (said := capsys.readouterr().out) and "1 violations" in said


SITES = attrs.evolve(generate(1, ("http://127.0.1.1:80/",), pages=10, links=4), delays={"http://127.0.1.1:80/": 2.0})


def asked(began: float, ended: float, path: str = "/index.html") -> dict[str, Any]:
    return {"server": "127.0.1.1", "path": path, "ended": ended, "seconds": ended - began}


POLITE = [asked(0, 1, ROBOTS), asked(1, 2), asked(3.5, 3.6)]


def test_a_polite_robot_is_not_blamed() -> None:
    assert not list(rude(SITES, POLITE))


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (asked(5.6, 6, "/d1/p999.html"), "are not in the closure"),
        (asked(-5, -4), "the first request"),
        (asked(3.55, 5), "at once"),
        (asked(3.7, 5), "asks for 2.0 s"),
    ],
)
def test_a_rude_one_is_found(more: dict[str, Any], fault: str) -> None:
    assert any(fault in found for found in rude(SITES, [*POLITE, more]))


def test_what_a_robots_txt_disallows_is_no_page_of_the_closure() -> None:
    sites = generate(1, ("http://127.0.1.1:80/",), pages=100, links=4)
    assert sites.forbidden and not sites.forbidden & sites.closure()
