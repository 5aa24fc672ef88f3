"""Who is missed: by what the queue manager said before, and by asking processes how they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.web.resource import Resource
from twisted.web.server import Site

from lcc.config import parse_config
from lcc.errors import ConfigError
from lcc.insight.evidence import MACHINE, ROBOT, UNS, Disconnected, Evidence, Fault, ProcessHealth
from lcc.insight.qm_state import Live
from lcc.insight.verdict import Level, Trouble, judge
from lcc.roles.web.members import GRACE_SECONDS, ROBOT_SECONDS, Members
from lcc.services import web
from lcc.services.process.environment import real_environment
from tests.support.databases import Backend
from tests.support.qm_state import MACHINE as ONE
from tests.support.qm_state import STATE
from tests.support.waiting import until

from .kit import Watch, press

NOW = 1_700_000_000.0


def robot(name: str) -> dict[str, Any]:
    return {"name": name, "capacity": 4, "busy": 0, "paused": False}


def machine(number: int, *robots: str, connected: bool = True) -> dict[str, Any]:
    return ONE | {
        "machine": number,
        "connected": connected,
        "robots": [robot(name) for name in robots],
        "robots_count": len(robots),
    }


def said(time: float, **changes: Any) -> Live:
    return Live(STATE | {"time": time, "machines": [machine(1, "a", "b")]} | changes, 0)


def missed(members: Members, time: float) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in members.away(time)]


def after(members: Members, begin: float, **changes: Any) -> list[tuple[str, str]]:
    """Who is missed once this has been so for a while."""
    for time in (begin, begin + GRACE_SECONDS):
        members.update(said(time, **changes))
    return missed(members, begin + GRACE_SECONDS)


def test_who_was_there_is_missed() -> None:
    members = Members()
    two = [machine(1, "a", "b"), machine(2, "c")]
    members.update(said(NOW, unses=["one", "two"], unses_connected=2, machines=two))
    assert missed(members, NOW + 100) == []
    members.update(said(NOW + 5, unses=["one"], machines=[machine(1, "a")]))
    assert missed(members, NOW + 5) == []  # it may be on its way
    assert after(members, NOW + 10, unses=["one"], machines=[machine(1, "a")]) == [
        (MACHINE, "2"),
        (ROBOT, "1 b"),  # and not the robots of machine 2: that one is missed
        (UNS, "two"),
    ]
    assert {each.since for each in members.away(NOW + 20)} == {NOW}
    members.update(said(NOW + 25, unses=["one", "two"], machines=two))
    assert missed(members, NOW + 100) == []


def test_a_clock_that_was_set_back_hides_nobody() -> None:
    members = Members()
    members.update(said(NOW, unses=["one"]))
    members.update(said(NOW + 5, unses=[], unses_connected=0))
    assert after(members, NOW - 86400, unses=[], unses_connected=0) == [(UNS, "one")]
    assert [each.since for each in members.away(NOW)] == [NOW - 86400]


def test_the_queue_managers_restart_hides_nobody() -> None:
    members = Members()
    members.update(said(NOW, machines=[machine(1), machine(2)]))
    dead = Live(STATE | {"time": NOW + 1}, 1000)
    members.update(dead)
    assert missed(members, NOW + 1000) == []
    members.update(said(NOW + 1000, machines=[], unses=[], run=2))
    members.update(said(NOW + 1005, machines=[machine(1)], run=2))
    assert after(members, NOW + 1010, machines=[machine(1)], run=2) == [(MACHINE, "2")]


def test_robots_of_one_name_and_robots_that_come_and_go() -> None:
    members = Members()
    members.update(said(NOW, machines=[machine(1, "bot", "bot", "bot")]))
    assert after(members, NOW + 5, machines=[machine(1, "bot", "bot")]) == [(ROBOT, "1 bot (3)")]
    assert after(members, NOW + 10 + ROBOT_SECONDS, machines=[machine(1, "bot", "bot")]) == []


def test_where_not_all_are_named_nobody_is_missed() -> None:
    members = Members()
    members.update(said(NOW, unses=["a", "b"], unses_connected=2, machines=[machine(1, "a", "b"), machine(2)]))
    crowd = machine(1, "b") | {"robots_count": 300}
    found = after(members, NOW + 5, unses=["b"], unses_connected=101, machines=[crowd], machines_connected=101)
    assert found == []


def test_who_was_taken_away_is_missed_no_longer() -> None:
    members = Members()
    members.update(said(NOW, unses=["one", "two"], unses_connected=2))
    away = machine(2, connected=False)  # known to the queue manager, never seen here
    now = {"unses": ["one"], "machines": [machine(1, "a"), away]}
    assert after(members, NOW + 5, **now) == [(MACHINE, "2"), (ROBOT, "1 b"), (UNS, "two")]
    assert not members.forget(UNS, "one") and not members.forget("x", "two") and not members.forget(ROBOT, "2")
    assert members.forget(UNS, "two") and members.forget(MACHINE, "2") and members.forget(ROBOT, "1")
    again = Members()
    again.restore(json.loads(json.dumps(members.kept())))
    for each in (members, again):
        assert after(each, NOW + 30, **now) == []
        assert each.machines_taken_away == {"2"}
    assert judge(Evidence(NOW, live=said(NOW, **now), taken_away=members.machines_taken_away)) == []
    members.update(said(NOW + 60, unses=["one"], machines=[machine(1, "a"), machine(2)]))  # it is back after all
    assert after(members, NOW + 70, **now) == [(MACHINE, "2")]


@pytest.mark.parametrize("kept", [{"members": [1]}, {"members": [["a", "b", "x", None]]}, {"members": {"a": 1}}])
def test_what_was_kept_and_makes_no_sense(kept: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Members().restore(kept)


def found(**known: Any) -> list[Trouble]:
    return judge(Evidence(NOW, live=said(NOW), **known))


def test_what_is_said_of_them() -> None:
    away = (Disconnected(UNS, "two", NOW - 60), Disconnected(MACHINE, "7", NOW - 30))
    names = [f"r{number}" for number in range(5)]
    robots = tuple(Disconnected(ROBOT, f"1 {name}", NOW - number) for number, name in enumerate(names))
    uns, seven, many = found(away=away + robots)
    assert (uns.what, uns.since, uns.stage) == (
        "UNS two is unreachable: sets of its providers do not arrive",
        NOW - 60,
        "uns",
    )
    assert (seven.what, seven.missed, seven.stage) == (
        "The BOT-M of machine 7 is unreachable",
        (MACHINE, "7"),
        "robots",
    )
    assert many.what == "Robots r0, r1, r2 and 2 more robots of machine 1 are unreachable"
    assert (many.since, many.missed, many.level) == (NOW - 4, (ROBOT, "1"), Level.WARNING)
    (one,) = found(away=robots[:1])
    assert one.what == "Robot r0 of machine 1 is unreachable"


def test_what_is_said_of_processes() -> None:
    address = "http://127.0.0.1:1"
    assert (
        found(processes=(ProcessHealth(address), ProcessHealth(address, well=False, silent="refused", bad=1))) == []
    )
    silent = ProcessHealth(address, ("cu",), False, "refused", since=NOW - 9, bad=2)
    (dead,) = found(processes=(silent,))
    (hostile,) = found(processes=(attrs.evolve(silent, roles=("cu", "x; id #")),))  # it named its roles itself
    assert "(systemctl start lcc-role@cu 'lcc-role@x; id #')" in hostile.remedy
    assert dead.what == f"cu at {address} is unreachable: refused"
    assert (dead.level, dead.stage, dead.since) == (Level.BAD, "users", NOW - 9)
    assert "systemctl start lcc-role@cu" in dead.remedy
    faults = (Fault("rs", "cannot read the database", "see that it runs"), Fault("rs", "x", "y"))
    (unready,) = found(processes=(ProcessHealth(address, ("rs",), False, "", faults, NOW, 2),))
    assert unready.what == f"rs at {address} is not ready: cannot read the database (and 1 more fault)"
    assert (unready.remedy, unready.level) == ("See that it runs.", Level.WARNING)


# With a real monitor.

only_sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@only_sqlite
@pytest_twisted.ensureDeferred
async def test_who_is_missed_is_seen_and_can_be_given_up(open_watch: Callable[..., Watch]) -> None:
    watch = open_watch()
    watch.add_user("guest", operates=False)
    watch.says(unses=["uns", "<b>two"], unses_connected=2)
    await watch.look()
    for seconds in (30.0, 15.0):
        watch.says(ago=seconds, unses=["uns"], unses_connected=1)
        await watch.look()
    browser, guest = await watch.visitor(), await watch.visitor("guest")
    reply = await browser.get("/")
    assert reply.text("sentence") == "UNS <b>two is unreachable: sets of its providers do not arrive."
    assert reply.page.xpath("//li[@class='stage warning']/h3/text()") == ["UNS"]
    assert not (await guest.get("/")).page.xpath("//form[@action='/taken-away']")
    seal = (await guest.get("/")).page.xpath("//input[@name='form']/@value")[0]
    fields = {"kind": "uns", "name": "<b>two"}
    assert (await guest.post("/taken-away", fields | {"form": seal})).status == 403
    assert (await browser.post("/taken-away", fields)).status == 403  # not from a page of ours
    seal = reply.page.xpath("//input[@name='form']/@value")[0]
    assert (await browser.post("/taken-away", {"kind": "uns", "name": "uns", "form": seal})).status == 404
    done = await deferToThread(lambda: press(browser, reply, lambda fields: fields.get("name") == "<b>two"))
    assert (done.status, done.headers["location"]) == (303, "/")
    assert (await browser.get("/")).text("sentence") == "All is well."
    await watch.services.stopService()
    kept = json.loads((watch.config.home / "web-samples.json").read_text())
    assert [member[:2] for member in kept["members"]] == [["uns", "uns"], ["machine", "1"], ["robot", "1 bot"]]
    watch.services.startService()


class Metrics(Resource):
    """A metrics port that says what it is told to."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.status, self.body = 200, json.dumps({"roles": {"cu": {"ok": True, "conditions": []}}})

    def render_GET(self, request: Any) -> bytes:
        assert request.path == b"/readyz"
        request.setResponseCode(self.status)
        return self.body.encode()


@only_sqlite
@pytest_twisted.ensureDeferred
async def test_processes_are_asked(open_watch: Callable[..., Watch]) -> None:
    clock: Any = reactor
    metrics = Metrics()
    port = clock.listenTCP(0, Site(metrics), interface="127.0.0.1")
    address = f"http://127.0.0.1:{port.getHost().port}"
    watch = open_watch(f'watch = ["{address}/"]')

    async def look() -> ProcessHealth:
        await until(lambda: not watch.monitor.processes._asking)
        await watch.look()
        await until(lambda: not watch.monitor.processes._asking)
        return watch.monitor.processes.health[0]

    browser = await watch.visitor()
    assert (await look()) == ProcessHealth(address, ("cu",), True)
    assert "cu ready" in " ".join((await browser.get("/machines")).text("machines").split())
    note = {"name": "index", "ok": True, "note": "7 pages <b>"}
    metrics.body = json.dumps({"roles": {"search": {"ok": True, "conditions": [note]}}})
    assert (await look()).notes == ("search: 7 pages <b>",)
    assert "ready; search: 7 pages <b>" in " ".join((await browser.get("/machines")).text("machines").split())
    condition = {"name": "database", "ok": False, "fault": "<i>no answer", "remedy": "see there"}
    metrics.status = 503
    metrics.body = json.dumps({"roles": {"cu": {"ok": False, "conditions": [condition]}}})
    assert (await look()).is_trouble is False  # once is nothing
    assert (await look()).faults == (Fault("cu", "<i>no answer", "see there"),)
    await look()
    reply = await browser.get("/")
    assert f"cu at {address} is not ready: <i>no answer" in reply.text("sentence")
    assert reply.page.xpath("//li[@class='stage warning']/h3/text()") == ["Content users"]
    for status, body in (
        (200, "{}"),
        (404, "no"),
        (200, "[" * 100_000),
        (200, " " * 300_000),
        (503, '{"roles": {}}'),
    ):
        metrics.status, metrics.body = status, body
        assert (await look()).silent
    stopped: Deferred[None] = port.stopListening()
    await stopped
    await watch.monitor.processes._http.close()
    assert "refused" in (await look()).silent
    await look()
    assert (await browser.get("/")).text("sentence").startswith(f"cu at {address} is unreachable: Connection was")


@only_sqlite
def test_where_processes_are_asked(backend: Backend) -> None:
    def build(watch: str, more: str = "") -> Any:
        text = f'home = "."\n[web]\nlisten = "unix:web.sock"\nwatch = ["{watch}"]\n{more}'
        return web.build(parse_config(text, backend.home), real_environment(reactor))

    for fault in ("tcp:127.0.0.1:1", "127.0.0.1:80", "", "http://10.0.0.1:9112", "http://127.evil.example:1"):
        with pytest.raises(ConfigError, match=r"web\.watch"):
            build(fault)
    for good in ("http://127.0.0.1:1/", "http://localhost:1", "http://[::1]:1", "unix:{home}/x.sock", "https://x:1"):
        build(good)
    build("http://10.0.0.1:9112", "[tls]\ninsecure = true")
