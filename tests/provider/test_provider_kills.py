"""A run that dies at any step of its work on the state file costs nothing that lives, and nothing that was told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lcc.provider.statefile import StateFile

from .model_lcc import ROOT, ModelLcc, publish
from .test_provider_delivery import greeting
from .test_provider_spellings import live, write_version_1


class Killed(BaseException):
    """The process is gone."""


class Killer:
    """Lets a process change the disk so many times, and never again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
        self.left = steps
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if self.left <= 0:
                raise Killed
            self.left -= 1
            return change(*arguments, **options)

        return counted


def page(name: str, md5: str) -> dict[str, str]:
    return {"c": name, "m": "text/html", "md5": md5 * 32}


BEFORE = [page("%7Ea", "0"), page("gone", "0"), page("changes", "0"), page("fails", "0"), page(ROOT + "whole", "0")]
NOW = [page("~a", "0"), page("changes", "1"), page("fails", "0"), page("whole", "0"), page("new", "0")]
REFUSED = {"c": "refused", "m": "video/x"}
STEPS = 40


@pytest.mark.parametrize("lost_before", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_a_kill_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, full: bool, lost_before: bool
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a killed process loses nothing that it has written
    ended = False
    for steps in range(STEPS):
        path = tmp_path / f"{steps}" / "state"
        path.parent.mkdir()
        lcc = ModelLcc()
        publish(lcc, path, BEFORE)
        if version == 1:
            write_version_1(path, BEFORE)
        if lost_before:
            publish(lcc, path, [*BEFORE, page("between", "0")], fate="lost", token="lost")
            if version == 1:
                write_version_1(StateFile(path).pending, [*BEFORE, page("between", "0")])
        lcc.deletions.clear()
        lcc.welcome = greeting(("fails", 404))
        with pytest.MonkeyPatch.context() as patched:
            Killer(patched, steps)
            try:
                publish(lcc, path, [*NOW, REFUSED], full=full, token="killed")
                ended = True
            except Killed:
                pass
        if REFUSED in lcc.last:  # it has this set, and shows its errors no more
            lcc.welcome = greeting()
        for number in range(3):
            publish(lcc, path, [*NOW, REFUSED], token=f"after{number}")
            lcc.welcome = greeting()
        assert not live(NOW) & set(lcc.deletions)
        assert lcc.cache.keys() == live(NOW)
        assert lcc.cache[ROOT + "changes", "text/html"] == "1" * 32
        assert publish(lcc, path, [*NOW, REFUSED], token="end").sent == [REFUSED]
        if ended:
            return
    raise AssertionError("more steps than were tried")
