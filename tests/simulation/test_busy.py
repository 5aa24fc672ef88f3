"""With more providers than robots each comes to its turn (``python -m tests.simulation 100 --busy`` runs many)."""

from __future__ import annotations

import pytest

from lcc.roles.qm.orders.machines import Machine

from .busy import run_busy


@pytest.mark.parametrize("seed", ["5", *(pytest.param(seed, marks=pytest.mark.long) for seed in ("0", "2", "16"))])
def test_each_provider_comes_to_its_turn(seed: str) -> None:
    unfair, requests = run_busy(seed)
    assert not unfair, "\n".join(unfair)
    assert requests > 1000


@pytest.mark.long
def test_runs_that_grow_for_ever_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "contended", False)
    unfair, _ = run_busy("5")
    assert unfair and " waited " in unfair[0]
