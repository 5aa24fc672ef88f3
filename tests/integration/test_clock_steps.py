"""The wall clock is set under real processes: whatever waits for a moment waits for that moment.

The machine's own clock is left alone, others use it.  Each process has a ``sitecustomize`` that moves ``time.time``
by what a file says at that moment.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.processes.system import ROLES, OriginServer, System
from tests.support.waiting import wait_for

LayOut = Callable[[str, int], Path]
CLOCK = """
import os, time
_time, _file = time.time, os.environ["LCC_TEST_CLOCK"]
def moved():
    with open(_file) as file:
        return _time() + float(file.read())
time.time = moved
"""


class Clock:
    """The wall clock of a system's processes."""

    def __init__(self, folder: Path, system: System) -> None:
        (folder / "sitecustomize.py").write_text(CLOCK)
        self._file = folder / "ahead"
        self.set(0.0)
        system.environment |= {"PYTHONPATH": str(folder), "LCC_TEST_CLOCK": str(self._file)}

    def set(self, ahead: float) -> None:
        """It shows so many seconds more than the machine's."""
        new = self._file.with_suffix(".new")
        new.write_text(str(ahead))
        new.replace(self._file)


@pytest.fixture
def system(tmp_path: Path, origin: OriginServer) -> Iterator[System]:
    """One whose sites are tried again after two seconds, at first."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    extra = "[qm]\nhold_initial = 2\nretry_initial = 2\nretry_maximum = 4\n"
    system = System(folder, origin, None, extra)
    yield system
    system.stop_all()


@pytest.fixture
def clock(tmp_path: Path, system: System) -> Clock:
    folder = tmp_path / "clock"
    folder.mkdir()
    return Clock(folder, system)


@pytest.mark.long
def test_the_wall_clock_is_set_by_hours_and_days(system: System, clock: Clock, lay_out: LayOut) -> None:
    lay_out("slow", 12)
    lay_out("late", 1)
    system.start(*ROLES)
    slow, late = system.add_site("slow", "--bandwidth", "300000"), system.add_site("late")
    system.publish_when_up(slow)
    wait_for("the queue manager runs", lambda: "uns has connected" in system.log("qm"))
    for number, step in enumerate((-3600.0, 86400.0, -86400.0, 3600.0)):
        clock.set(step)
        wait_for("it was noticed", lambda count=number + 1: system.log("qm").count("The wall clock was set") >= count)
        # What is new is told, absorbed, ordered, fetched, recorded; links that break are made again.
        (late.folder / f"page{number}.html").write_text(f"<html>after step {number}</html>")
        victim = ("botm", "uns", "bot", "qm")[number]
        system.kill(victim)
        system.start(victim)
        system.publish_when_up(late)
        system.wait_cached(late)
    system.wait_cached(slow)
    assert not any("Traceback" in system.log(role) for role in ROLES)
    system.assert_serial()
    for role in reversed(ROLES):
        system.stop(role)


@pytest.mark.long
def test_a_robot_that_was_suspended_begins_nothing_after_its_lease(
    system: System, clock: Clock, lay_out: LayOut
) -> None:
    """Its wall clock, set back meanwhile, would say that there is time left."""
    lay_out("site", 30)
    system.config.write_text(system.config.read_text().replace("[qm]\n", "[qm]\nlease = 20\n"))
    system.start("qm", "uns", "botm", "bot")
    site = system.add_site("site")
    system.publish_when_up(site)
    wait_for("it is fetched from", lambda: len(system.origin.requests()) > 3)
    system.processes["bot"].send_signal(signal.SIGSTOP)
    clock.set(-3600.0)
    system.start("bot2")
    system.wait_cached(site)  # by the other robot, when the lease has passed
    system.processes["bot"].send_signal(signal.SIGCONT)
    (site.folder / "new.html").write_text("<html>new</html>")
    system.publish_when_up(site)
    system.wait_cached(site)
    system.assert_serial()
