"""Looks for a seed that shows a bug.  It counts only if it breaks nothing in the code as it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..run import CRAWLS, MOVES, TASKS, seed_number
from .bug import Bug

ROOT = Path(__file__).parents[3]


def copy_of_the_code(folder: Path) -> Path:
    """What is run, in a folder of its own."""
    keep = shutil.ignore_patterns("__pycache__", "dropin.cache")
    for name in ("lcc", "twisted", "tests/simulation"):
        shutil.copytree(ROOT / name, folder / name, ignore=keep)
    for name in ("tests/__init__.py", "tests/conftest.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def find(bug: Bug, first: int, seeds: int, jobs: int) -> tuple[str, str]:
    """The first seed found that breaks a promise, and which; no seed: none did, or that one breaks one without the
    bug, too."""
    with tempfile.TemporaryDirectory(prefix="lcc-planted-") as name:
        folder = copy_of_the_code(Path(name))
        bug.plant(folder)
        found = _FOUND.search(run(folder, bug, first, seeds, jobs).stdout)
    if found is None:
        return "", ""
    with tempfile.TemporaryDirectory(prefix="lcc-planted-") as name:
        folder = copy_of_the_code(Path(name))
        if sound := _FOUND.search(run(folder, bug, seed_number(found[1]), 1, 1).stdout):
            return "", f"seed {found[1]} breaks a promise without it: {sound[2]}"
    return found[1], found[2]


_OPTIONS = {"": [], TASKS: ["--tasks"], CRAWLS: ["--spiders"], MOVES: ["--moves"]}
_FOUND = re.compile(r"^seed (\d+[tsm]?): (.*)$", re.MULTILINE)


def run(folder: Path, bug: Bug, first: int, seeds: int, jobs: int) -> subprocess.CompletedProcess[str]:
    """Run seeds of a copy, until one breaks a promise."""
    command = [sys.executable, "-m", "tests.simulation", str(seeds), "--first", str(first), "--until-found"]
    command += _OPTIONS[bug.kind]
    return subprocess.run(
        [*command, "--jobs", str(jobs), "--results", str(folder / "results.jsonl")],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1"),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
