"""The manager itself: leases, kills, stops and restarts; whatever dies, no job runs twice, and no ending is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from lcc.model.tasks import JobState
from lcc.protocols.hello import Ready
from lcc.protocols.jobs import Heartbeat, JobStatus, RunJob, RunningJob, RunOver, Started
from lcc.roles.manager import engine
from lcc.storage.disk.file_system import Disk
from lcc.workers.launch import LEASE_WAS_OVER
from tests.support.logs import LoggedErrors
from tests.support.waiting import until

from .kit import Make, Rig, alive, launchers, sleeping, with_mark

SLEEPS = sleeping(3100)
"""What nobody else runs."""
_SLEEP = SLEEPS.replace("\0", " ")
LONG = f"trap 'exit 0' TERM; lcc-job status up; (setsid {_SLEEP} &); while :; do {_SLEEP}; done"


async def running(rig: Rig, **more: Any) -> Any:
    order = rig.give(rig.shell(LONG), **more)
    await until(lambda: any(status.text == "up" for status in rig.of(JobStatus)))
    await until(lambda: len(with_mark(SLEEPS)) == 2)
    return order


@pytest_twisted.ensureDeferred
async def test_a_job_is_killed_by_order(make: Make) -> None:
    rig = make("grace_seconds = 1")
    await rig.start()
    order = await running(rig)
    rig.kill(order, "by anne")
    done = await rig.ended(order)
    assert (done.state, done.message) == (JobState.PERMANENT, "Killed: by anne; up")
    assert not with_mark(SLEEPS)
    rig.kill(order)  # one that is not there any longer
    assert (await rig.run(rig.shell("echo next", "next.sh"))).message == "next"


@pytest_twisted.ensureDeferred
async def test_a_silent_kill_is_not_reported(rig: Rig) -> None:
    await rig.start()
    order = await running(rig)
    rig.kill(order, silent=True)
    await until(lambda: not rig.engine.jobs)
    assert not with_mark(SLEEPS)
    assert (await rig.run(rig.shell("echo next", "next.sh"))).message == "next"
    assert [result.id for result in rig.results] == [2]


@pytest_twisted.ensureDeferred
async def test_a_later_attempt_waits_for_the_end_of_the_earlier_one(rig: Rig) -> None:
    await rig.start()
    order = await running(rig)
    again = rig.give("work.sh", id=order.id, attempt=2)
    await until(lambda: len(rig.of(Started)) == 2)
    first, second = rig.of(Started)
    assert not alive(first.process) and alive(second.process)
    rig.kill(again)
    await rig.ended(again)
    assert {result.attempt for result in rig.results} == {2}


@pytest_twisted.ensureDeferred
async def test_the_same_order_again_does_nothing(rig: Rig) -> None:
    await rig.start()
    order = await running(rig)
    rig.links[-1].say(order)
    rig.kill(order)
    await rig.ended(order)
    rig.links[-1].say(order)  # it is recorded, and so unknown: the scheduler fences it
    await until(lambda: rig.of(Started))
    assert len(rig.results) == 1


@pytest_twisted.ensureDeferred
async def test_a_lease_ends(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers heartbeats: the shepherd kills."""
    monkeypatch.setattr(engine, "HEARTBEAT_SECONDS", 0.5)
    rig = make("grace_seconds = 1\nstop_seconds = 0")
    await rig.start()
    order = await running(rig, lease_seconds=4)
    rig.hears = False
    done = await rig.ended(order)
    assert (done.state, done.signal) == (JobState.TEMPORARY, 9)
    assert "lost its connection" in done.message
    assert not with_mark(SLEEPS)


@pytest_twisted.ensureDeferred
async def test_a_lease_ends_even_if_the_manager_hangs(make: Make) -> None:
    rig = make("stop_seconds = 0")
    process = await rig.start_process()
    await running(rig, lease_seconds=6)
    process.send_signal(signal.SIGSTOP)
    try:
        await until(lambda: not with_mark(SLEEPS))
    finally:
        process.send_signal(signal.SIGCONT)


@pytest_twisted.ensureDeferred
async def test_an_order_that_comes_after_its_lease_is_not_begun(rig: Rig) -> None:
    await rig.start()
    order = rig.give(rig.shell("echo ran"), lease_seconds=0)
    done = await rig.ended(order)
    assert (done.state, done.message) == (JobState.TEMPORARY, LEASE_WAS_OVER)


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_a_lease_is_renewed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEARTBEAT_SECONDS", 1.0)
    await rig.start()
    order = rig.give(rig.shell("sleep 7; echo lived"), lease_seconds=6)
    assert (await rig.ended(order)).message == "lived"
    assert len(rig.of(Heartbeat)) >= 2


@pytest_twisted.ensureDeferred
async def test_more_jobs_than_there_is_room_for_wait(make: Make) -> None:
    rig = make('kinds = ["one jobs=1"]\njobs_max = 2')
    await rig.start()
    body = 'mkdir "$1/$LCC_JOB_ID"; ls "$1" | wc -l; sleep 0.05; rmdir "$1/$LCC_JOB_ID"'
    work = rig.shell(body)
    shared = rig.folder / "shared"
    shared.mkdir()
    ones = [rig.give(work, str(shared), kind="one") for _ in range(5)]
    assert {(await rig.ended(order)).message for order in ones} == {"1"}
    many = [rig.give(work, str(shared)) for _ in range(8)]
    assert {(await rig.ended(order)).message for order in many} <= {"1", "2"}


@pytest_twisted.ensureDeferred
async def test_pausing_is_told(rig: Rig) -> None:
    await rig.start()
    rig.service.commands.pause()
    await until(lambda: any(beat.paused for beat in rig.of(Heartbeat)))
    assert ("manager", "manager: takes no jobs: paused by an operator") in rig.service.commands.est()
    rig.service.commands.resume()
    await until(lambda: not rig.of(Heartbeat)[-1].paused)
    conditions = {each.name: each.fault for each in rig.service.metrics.conditions()}
    assert conditions == {"scheduler": "", "not-paused": ""}


@pytest_twisted.ensureDeferred
async def test_stopping_waits_for_short_jobs_and_ends_the_others(make: Make) -> None:
    rig = make("stop_seconds = 4\ngrace_seconds = 5")
    await rig.start()
    long = await running(rig)
    short = rig.give(rig.shell("sleep 0.5; echo \"<notify url='http://site/'/>\" >&3; echo done", "short.sh"))
    await until(lambda: len(rig.of(Started)) == 2)
    await rig.stop()
    ended = {result.id: result for result in rig.results}
    assert (ended[short.id].state, len(ended[short.id].effects.notices)) == (JobState.COMPLETED, 1)
    assert ended[long.id].state is JobState.TEMPORARY and "manager was stopped" in ended[long.id].message
    assert not with_mark(SLEEPS)
    assert not list((rig.home / "manager" / "endings").iterdir())


@pytest_twisted.ensureDeferred
async def test_endings_are_said_again_until_they_are_recorded(rig: Rig) -> None:
    rig.records = False
    await rig.start()
    order = rig.give(rig.shell("lcc-job notify http://site/1; lcc-job log x"))
    await until(lambda: rig.results)
    rig.heard.clear()
    rig.links[0].stream.abort()
    await until(lambda: len(rig.results) == 2)
    assert rig.results[0] == rig.results[1]
    assert rig.of(RunningJob) == [RunningJob(order.id, 1)]
    await rig.stop()  # nobody records it
    assert len(list((rig.home / "manager" / "endings").iterdir())) == 1
    rig.records = True
    await rig.start()
    await until(lambda: len(rig.results) == 3)
    assert rig.results[2] == rig.results[0] and rig.results[0].effects.notices
    await until(lambda: not list((rig.home / "manager" / "endings").iterdir()))


@pytest_twisted.ensureDeferred
async def test_a_damaged_ending_is_a_temporary_error(rig: Rig, logged: list[Any]) -> None:
    rig.records = False
    await rig.start()
    rig.give(rig.shell("lcc-job notify http://site/1"))
    await until(lambda: rig.results)
    await rig.stop()
    [path] = (rig.home / "manager" / "endings").iterdir()
    path.write_bytes(path.read_bytes()[:-40])
    (path.parent / "7-1-0.ending").write_bytes(b"{")
    (path.parent / "8-1-0.ending.new").write_bytes(b"{")
    (path.parent / "odd").write_bytes(b"{")
    rig.records = True
    rig.results.clear()
    await rig.start()
    await until(lambda: len(rig.results) == 2)
    assert {(result.id, result.state) for result in rig.results} == {
        (1, JobState.TEMPORARY),
        (7, JobState.TEMPORARY),
    }
    await until(lambda: not list(path.parent.iterdir()))
    assert any("Cannot read" in str(event.get("log_format")) for event in logged)


@pytest_twisted.ensureDeferred
async def test_a_manager_that_is_killed_takes_its_workers_along(rig: Rig) -> None:
    process = await rig.start_process()
    order = await running(rig)
    [started] = rig.of(Started)
    process.kill()
    await until(lambda: not alive(started.process) and not with_mark(SLEEPS))
    process.wait()
    await until(lambda: not rig.links)
    assert not rig.of(RunOver)
    rig.heard.clear()
    await rig.start_process()
    await until(lambda: rig.of(Ready))
    # All of it is dead: the scheduler need not wait for its lease.
    assert rig.of(RunOver) == [RunOver(rig.runs[0])] and len(set(rig.runs)) == 2
    assert not rig.of(RunningJob)
    assert (await rig.run(rig.shell("echo next", "next.sh"))).message == "next"
    assert order.id not in {result.id for result in rig.results}


@pytest_twisted.ensureDeferred
async def test_all_of_them_are_killed_at_once(rig: Rig) -> None:
    """Manager, launcher, shepherd and the worker: what the worker has forked is found by the next run."""
    process = await rig.start_process()
    await running(rig)
    [started] = rig.of(Started)
    launcher = [pid for pid in with_mark("lcc.workers.launcher") if _parent(pid) == process.pid]
    shepherd = _parent(started.process)
    for pid in (process.pid, *launcher, shepherd, started.process):
        os.kill(pid, signal.SIGSTOP)
    for pid in (process.pid, *launcher, shepherd, started.process):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    assert with_mark(SLEEPS)
    await until(lambda: not rig.links)
    await rig.start_process()
    assert not with_mark(SLEEPS)


@pytest_twisted.ensureDeferred
async def test_the_next_run_waits_for_shepherds_of_the_last(rig: Rig) -> None:
    process = await rig.start_process()
    await running(rig)
    [started] = rig.of(Started)
    shepherd = _parent(started.process)
    os.kill(shepherd, signal.SIGSTOP)
    process.kill()
    process.wait()
    await until(lambda: not rig.links)
    begun = Deferred.fromCoroutine(rig.start_process())
    await until(lambda: "Waiting until the jobs of the last run have ended" in rig.log())
    assert not rig.links and alive(started.process)
    os.kill(shepherd, signal.SIGCONT)
    await begun
    assert not alive(started.process)


@pytest_twisted.ensureDeferred
async def test_it_ends_in_order_as_a_process(rig: Rig) -> None:
    process = await rig.start_process()
    done = await rig.run(rig.shell("echo done"))
    assert done.state is JobState.COMPLETED
    process.terminate()
    await until(lambda: process.poll() is not None)
    assert "Traceback" not in rig.log() and "Unhandled" not in rig.log(), rig.log()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Damaging(Disk):
    """Commits cannot be read back."""

    def read(self, path: Any) -> bytes:
        data = super().read(path)
        return data[:-40] if str(path).endswith("-1.ending") else data


@pytest_twisted.ensureDeferred
async def test_a_commit_that_cannot_be_read_back_is_an_error(rig: Rig, logged: list[Any]) -> None:
    rig.environment = attrs.evolve(rig.environment, disk=Damaging())
    await rig.start()
    body = "lcc-job notify http://site/1; lcc-job commit && echo taken; lcc-job notify http://site/2; lcc-job commit"
    done = await rig.run(rig.shell(f"{body}; exit 0"))
    # Nothing of this attempt takes effect; it is tried again.
    assert [result.state for result in rig.results] == [JobState.TEMPORARY] and not done.effects.notices
    assert "effects were lost" in done.message
    # A second try of it is not the same attempt, and other jobs go on.
    again = await rig.run(rig.shell("lcc-job notify http://site/1"), id=1, attempt=2)
    assert again.state is JobState.COMPLETED and len(again.effects.notices) == 1
    await until(lambda: not list((rig.home / "manager" / "endings").iterdir()))
    assert any("Cannot read" in str(event.get("log_format")) for event in logged)


@pytest_twisted.ensureDeferred
async def test_the_worker_is_told_that_its_commit_is_lost(rig: Rig, logged: list[Any]) -> None:
    rig.environment = attrs.evolve(rig.environment, disk=Damaging())
    await rig.start()
    said = rig.folder / "said"
    said.touch(0o666)
    await rig.run(rig.shell(f"lcc-job notify http://site/1; lcc-job commit >{said} 2>&1; echo $? >>{said}"))
    assert "effects were lost" in said.read_text() and said.read_text().endswith("1\n")


@pytest_twisted.ensureDeferred
async def test_an_order_that_makes_no_sense_is_an_error_in_words(rig: Rig, logged_errors: LoggedErrors) -> None:
    await rig.start()
    command = rig.shell("exit 0")
    rig.links[-1].say(RunJob(7, 1, 0, "command", command, 60, args="{"))
    await until(lambda: rig.results)
    [done] = rig.results
    assert done.state is JobState.TEMPORARY and "Cannot start it: fault of the manager" in done.message
    logged_errors.flush("Cannot start job")
    assert (await rig.run(command)).state is JobState.COMPLETED


TEMPLATE = '''
"""Workers of our own, as the template has them."""
import os
import sys
import time

from lcc.worker import Job, run

LOADED_BY = os.getpid()


def work() -> None:
    def main(job: Job) -> None:
        assert job.show().command == ""
        print(f"forked {os.getpid() != LOADED_BY} as {os.getuid()} in {os.getcwd() == os.environ['HOME']}")
        print(sys.argv[1:], sorted(os.listdir("/proc/self/fd")))
        job.notify("http://site/")
        if "fail" in sys.argv:
            raise SystemExit(2)

    run(main)


def crash() -> None:
    import ctypes

    ctypes.string_at(1)


def plain() -> int:
    return 1


def wait() -> None:
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
        time.sleep(0.05)
'''


@pytest_twisted.ensureDeferred
async def test_a_template_forks(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make("")
    (rig.folder / "of_test.py").write_text(TEMPLATE)
    monkeypatch.syspath_prepend(str(rig.folder))
    calls = {
        "work": "of_test:work",
        "crash": "of_test:crash",
        "plain": "of_test:plain",
        "none": "of_test:none",
        "wait": "of_test:wait",
    }
    monkeypatch.setattr("lcc.services.manager.BUILTIN", calls)
    await rig.start()
    done = await rig.run("", "a", kind="work")
    assert done.state is JobState.COMPLETED, done
    assert done.output.startswith(f"forked True as {os.getuid()} in True\n['a'] ['0', '1', '2', '3', '4', '5']")
    assert len(done.effects.notices) == 1
    assert (await rig.run("", "fail", kind="work")).state is JobState.PERMANENT
    assert (await rig.run("", kind="crash")).signal == 11
    assert (await rig.run("", kind="plain")).exit_code == 1
    missing = await rig.run("", kind="none")
    assert missing.state is JobState.PERMANENT and "has no attribute 'none'" in missing.message
    # All were forks of one template.  It dies: what it has forked runs on, and there is another one for the next job.
    waiting = rig.give("", kind="wait")
    await until(lambda: any(started.id == waiting.id for started in rig.of(Started)))
    [template] = launchers("of_test")
    os.kill(template, signal.SIGKILL)
    await until(lambda: template not in launchers("of_test"))
    assert (await rig.run("", kind="work")).state is JobState.COMPLETED
    assert launchers("of_test") != [template]
    (rig.folder / "go").touch()
    assert (await rig.ended(waiting)).state is JobState.COMPLETED


@pytest_twisted.ensureDeferred
async def test_a_template_that_cannot_be_imported(
    make: Make, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    rig = make("")
    monkeypatch.setattr("lcc.services.manager.BUILTIN", {"work": "there_is_no_such_module:work"})
    await rig.start()
    done = await rig.run("", kind="work")
    assert done.state is JobState.TEMPORARY and "log of the manager" in done.message
    assert any("there_is_no_such_module" in str(event.get("line")) for event in logged)
    assert (await rig.run(rig.shell("exit 0"))).state is JobState.COMPLETED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest_twisted.ensureDeferred
async def test_a_template_forks_as_nobody(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make("", "nobody")
    (rig.folder / "of_test2.py").write_text(TEMPLATE)
    monkeypatch.syspath_prepend(str(rig.folder))
    monkeypatch.setattr("lcc.services.manager.BUILTIN", {"work": "of_test2:work"})
    await rig.start()
    done = await rig.run("", "a", kind="work")
    assert "as 65534 in True" in done.output and done.state is JobState.COMPLETED
