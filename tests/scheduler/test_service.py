"""The scheduler as a service: real sockets, real tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.task import deferLater

from lcc.config import Config, parse_config
from lcc.errors import Busy
from lcc.model.tasks import Effects, FollowUp, JobResult, JobSpec, JobState, Task, When
from lcc.protocols import jobs
from lcc.protocols.endings import write_ending
from lcc.protocols.hello import Hello, Ready
from lcc.roles.peer import PeerFactory
from lcc.services import all_roles, scheduler
from lcc.services.process.environment import real_environment
from lcc.storage.database.migrations import MAIN, TASKS
from lcc.storage.database.place import place_of
from lcc.storage.tasks.orders import order_task
from lcc.storage.tasks.views import get_task
from tests.support.databases import Backend, DirectDatabase
from tests.support.roles.robots import FakePeer


def config_of(home: Path, url: str = "sqlite:lcc.db") -> Config:
    return parse_config(f'home = "."\n[database]\nurl = "{url}"\n[scheduler]\nconnect = ""', home)


async def until(condition: Any) -> None:
    while not condition():
        await deferLater(reactor, 0.02)  # type: ignore[arg-type]  # untyped in Twisted


def test_where_its_tables_are(tmp_path: Path) -> None:
    place = place_of(config_of(tmp_path), TASKS)
    assert (place.url, place.series) == (f"sqlite:{tmp_path}/tasks.sqlite", TASKS)
    assert place_of(config_of(tmp_path, "mysql://a:b@localhost/c"), TASKS).series == MAIN


def test_it_is_one_of_all_roles(tmp_path: Path) -> None:
    roles = all_roles.build(config_of(tmp_path), real_environment(reactor))
    assert "scheduler" in {each.name for each in roles}


@pytest_twisted.ensureDeferred
async def test_a_task_from_the_order_to_its_end(backend: Backend) -> None:
    config = config_of(backend.home, backend.url)
    place = place_of(config, TASKS)
    tables = DirectDatabase(place.url, place.home, place.series)
    number, _ = tables.now(order_task, Task(0, JobSpec(command="true"), When(every_seconds=3600)), 1)
    role = scheduler.build(config, real_environment(reactor))
    role.startService()
    second = scheduler.build(config, real_environment(reactor))
    with pytest.raises(Busy):
        second.startService()
    await second.stopService()
    peer = FakePeer(reactor, Hello("manager", "m", run="r", host="h"), "scheduler", jobs.DOWN)  # type: ignore[arg-type]  # untyped in Twisted
    socket = str(backend.home / "scheduler.sock")
    await UNIXClientEndpoint(reactor, socket).connect(PeerFactory(lambda: peer))
    await until(lambda: peer.peer_hello is not None)
    for message in (jobs.Kind("*", 4), jobs.Has("true"), Ready()):
        peer.say(message)
    await until(lambda: peer.of(jobs.RunJob))
    [job] = peer.of(jobs.RunJob)
    assert (job.task, job.attempt, job.command) == (number, 1, "true")
    effects = Effects(followups=(FollowUp(JobSpec(command="true")),), data="kept")
    for message in write_ending(1, JobResult(job.id, 1, JobState.COMPLETED, effects=effects)):
        peer.say(message)
    await until(lambda: len(peer.of(jobs.RunJob)) == 2)
    task = tables.blocking.select(get_task, number)
    assert task is not None and task.spec.data == "kept" and task.last_state is JobState.COMPLETED
    shown = dict(role.commands.est())
    assert shown["manager"] == "m on h: 1 job; takes 4 *"
    names = {reading.metric.name for reading in role.metrics.readings()}
    assert "lcc_scheduler_jobs_running" in names
    assert [each.fault for each in role.metrics.conditions() if each.name != "database"] == ["", "", ""]
    peer.stream.finish()
    await role.stopService()
    tables.blocking.close()


def test_a_scheduler_loads_what_it_needs() -> None:
    """Its memory is mostly its libraries and modules; what only other roles, or few of its tasks, need comes late."""
    code = "import sys; from twisted.internet import reactor; import lcc.services.scheduler; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    late = {
        "cronsim",
        "zoneinfo",
        "protego",
        "feedparser",
        "lxml",
        "pymysql",
        "sqlite3",
        "importlib.metadata",
        "click",
    }
    late |= {"lcc.protocols.work", "lcc.model.spider.crawls", "lcc.metrics.watched", "lcc.roles.manager"}
    assert not late & set(done.stdout.split())
