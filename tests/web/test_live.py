"""The stream of events, and what the engine does by the clock."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from lcc.storage.providers.web_users import remove_web_user
from tests.support.browser import Browser
from tests.support.qm_state import STATE
from tests.support.waiting import until

from .kit import Watch

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
PATIENCE_SECONDS = 30


class Listener:
    """Reads a stream."""

    def __init__(self, browser: Browser) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", browser.visitor.port, timeout=PATIENCE_SECONDS)
        cookie = "; ".join(f"{name}={each.value}" for name, each in browser.cookies.items())
        self.connection.request("GET", "/live", headers={"cookie": cookie})
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def event(self) -> dict[str, str]:
        """The next one; empty: the stream has ended."""
        found: dict[str, str] = {}
        while line := self.response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            found[name] = value
        return found

    def close(self) -> None:
        self.connection.close()


async def listen(browser: Browser) -> Listener:
    return await deferToThread(Listener, browser)


@pytest_twisted.ensureDeferred
async def test_events(watch: Watch) -> None:
    await watch.look()
    browser = await watch.visitor()
    listener = await listen(browser)
    assert listener.status == 200
    assert listener.response.getheader("content-type") == "text/event-stream; charset=utf-8"
    assert await deferToThread(listener.event) == {"retry": "5000"}
    first = await deferToThread(listener.event)
    assert (first["event"], first["data"]) == ("look", "note")
    watch.says(unses=[])
    await watch.look()
    second = await deferToThread(listener.event)
    assert second["data"] == "bad" and int(second["id"]) == int(first["id"]) + 1
    assert len(watch.monitor.followers) == 1
    listener.close()
    await watch.look()
    await until(lambda: not watch.monitor.followers)


@pytest_twisted.ensureDeferred
async def test_a_stream_ends_with_its_session(watch: Watch) -> None:
    browser = await watch.visitor()
    listener = await listen(browser)
    assert await deferToThread(listener.event) == {"retry": "5000"} and await deferToThread(listener.event)
    watch.database.now(remove_web_user, "ann")
    await watch.look()
    while await deferToThread(listener.event):
        pass
    listener.close()
    assert not watch.monitor.followers


@pytest_twisted.ensureDeferred
async def test_streams_are_bounded(open_watch: Callable[..., Watch]) -> None:
    watch = open_watch("streams_max = 2")
    browser = await watch.visitor()
    listeners = [await listen(browser) for _ in range(3)]
    assert [each.status for each in listeners] == [200, 200, 503]
    listeners[0].close()
    await watch.look()
    await until(lambda: len(watch.monitor.followers) == 1)
    listeners.append(await listen(browser))
    assert listeners[-1].status == 200
    for each in listeners:
        each.close()


@pytest_twisted.ensureDeferred
async def test_nobody_takes_all_streams(open_watch: Callable[..., Watch]) -> None:
    """Of who has the most the oldest ends; nobody pushes away who has as few."""
    watch = open_watch("streams_max = 4")
    watch.add_user("guest", operates=False)
    guest, ann = await watch.visitor("guest"), await watch.visitor()
    taken = [await listen(guest) for _ in range(4)]
    honest = [await listen(ann) for _ in range(3)]
    assert [each.status for each in (*taken, *honest)] == [200] * 6 + [503]
    for each in taken[:2]:
        while await deferToThread(each.event):
            pass
    honest.append(await listen(guest))
    assert honest[-1].status == 503 and len(watch.monitor.followers) == 4
    for each in (*taken, *honest):
        each.close()


@pytest_twisted.ensureDeferred
async def test_it_looks_by_the_clock_and_the_plots_outlive_it(open_watch: Callable[..., Watch]) -> None:
    watch: Watch = open_watch(interval=1)
    for count in (10, 30):
        watch.says(counts={**STATE["counts"], "results_recorded": count})
        seen = watch.monitor.looks
        await until(lambda seen=seen: watch.monitor.looks > seen + 1)  # one may have begun before
    points = watch.monitor.samples.since(0)
    assert [point.values["results_recorded"] for point in points][-1] == 4.0
    await watch.services.stopService()
    kept = json.loads((watch.config.home / "web-samples.json").read_text())
    assert len(kept["recent"]) == len(points)
    watch.services.startService()
    await until(lambda: watch.monitor.looks > 2)
    assert [round(point.time) for point in watch.monitor.samples.since(0)][: len(points)] == [
        round(point.time) for point in points
    ]
    await watch.services.stopService()
    (watch.config.home / "web-samples.json").write_text('{"recent": [[1, 0]], "day": []}')
    watch.services.startService()  # a file that makes no sense: it begins anew, and says so
    done: Deferred[None] = watch.services.stopService()
    await done
    watch.services.startService()
