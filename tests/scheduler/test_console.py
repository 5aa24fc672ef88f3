"""What a scheduler shows at its console."""

from __future__ import annotations

from lcc.roles.scheduler.console import SchedulerCommands
from tests.support.roles.scheduler import Bench


def test_managers_with_what_they_have_and_those_that_are_lost(bench: Bench) -> None:
    commands = SchedulerCommands(bench.engine)
    assert ("manager", "none") in commands.est()
    bench.add(every=10**6)
    here = bench.manager("here", feed=1, command=2)
    gone = bench.manager("gone", other=1)
    bench.pass_time(2)
    gone.lose()
    bench.pass_time(5)
    here.heartbeat("by an operator")
    shown = [text for name, text in commands.est() if name == "manager"]
    assert shown == [
        "here on host1: 1 job; takes 2 command, 1 feed; paused: by an operator",
        "gone on host1: LOST for 5 seconds, had 0 jobs",
    ]


def test_before_it_has_claimed_its_tables(bench: Bench) -> None:
    lines = dict(SchedulerCommands(bench.another()).est())
    assert (lines["scheduler"], lines["database"]) == ("waits for the database", "answers")


def test_no_more_managers_than_fit(bench: Bench) -> None:
    for number in range(21):
        bench.manager(f"m{number}")
    lines = SchedulerCommands(bench.engine).est()
    assert len([name for name, text in lines if name == "manager"]) == 20
    assert ("", "… and 1 manager more") in lines


def test_what_waits_and_since_when(bench: Bench) -> None:
    bench.add(every=10**6)
    bench.pass_time(2)
    commands = SchedulerCommands(bench.engine)
    due = bench.engine.ready.oldest_due_time
    assert due is not None
    bench.step = due + 90 - bench.clock.seconds()
    assert dict(commands.est())["jobs"] == "0 running, 1 due and waiting, the first for 90 seconds"
    commands.pause()
    bench.step += 60
    assert dict(commands.est())["scheduler"] == "PAUSED for 60 seconds, gives out no jobs"
