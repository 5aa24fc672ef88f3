"""Whatever is killed, whenever: a later run brings the engine to exactly what is in the cache."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from random import Random
from time import sleep

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from tests.support.processes.engines import EACH_ENGINE, Engine
from tests.support.roles.content_users import Api

from .kit import Pages, change, check, command, run

ROUNDS = int(os.environ.get("LCC_EXPORT_ROUNDS", "5"))
BY_URL = {"swish-e", "htdig"}


def run_and_kill(words: list[str], cwd: Path, random: Random) -> None:
    """Run an export in which something dies: itself, or its consumer, or both, at any moment."""
    victim = random.choice(("exporter", "consumer", "all", "nobody"))
    process = subprocess.Popen(
        words, cwd=cwd, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        # Often while the consumer is at work, which is only a small part of the time.
        if random.random() < 0.1:
            sleep(random.uniform(0.1, 0.5))
        while process.poll() is None and not children(process.pid):
            sleep(0.002)
        sleep(random.expovariate(1 / random.choice((0.003, 0.03, 0.1))))
        if victim in ("consumer", "all"):
            for child in children(process.pid):
                kill_group(child)
        if victim in ("exporter", "all"):
            process.kill()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", EACH_ENGINE)
@pytest_twisted.ensureDeferred
async def test_an_engine_ends_with_exactly_the_content_of_the_cache(
    api: Api, pages: Pages, kind: type[Engine], seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    engine = kind(tmp_path)
    words = engine.export(command(api))
    for _ in range(ROUNDS):
        change(random, pages)
        await deferToThread(run_and_kill, words, tmp_path, random)
    change(random, pages)
    # The first run goes on from wherever the last one died.
    done = await deferToThread(run, words, tmp_path)
    assert done.returncode == 0, done.stderr
    await deferToThread(check, pages, engine, engine.name in BY_URL)
    if engine.name == "omega":
        done = await deferToThread(run, engine.export(command(api), "--rebuild", "--batch-bytes", "500"), tmp_path)
        assert done.returncode == 0, done.stderr
        await deferToThread(check, pages, engine, False)
