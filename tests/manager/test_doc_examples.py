"""The workers of doc/workers run, and do what their pages say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import pytest_twisted

from lcc.model.tasks import FollowUp, JobNotice, JobSpec, JobState

from .kit import Make, Rig

WORKERS = Path(__file__).parents[2] / "doc" / "workers"
PAGES = {
    "/content/00": b'<p>An <b>"Article"</b> &amp; more\\\n on Amsterdam</p>',
    "/content/01": b"<p>an <i>article</i> AND</p>",
    "/content/02": b"An article, and!",
    "/content/03": b'<a href="/b?c=d#e">x</a> <a href=mailto:x> <a href="http://other/">z</a> <a href="/b?c=d">',
}


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        self.send_response(200 if page is not None else 404)
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def cu() -> Iterator[str]:
    """The content of some pages, as lcc-cu serves it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def rig(make: Make, cu: str) -> Rig:
    made = make(f'environment = ["LCC_CU={cu}"]')
    for path in WORKERS.iterdir():
        shutil.copy(path, made.workers)
    return made


@pytest_twisted.ensureDeferred
async def test_three_follow_ups(rig: Rig) -> None:
    """The example of the seed: comments are fetched 12, 24 and 48 hours after an article."""
    script = (WORKERS / "article.sh").read_text()
    assert len(script.splitlines()) == 6 and f"```sh\n{script}```" in WORKERS.with_name("workers.md").read_text()
    await rig.start()
    url = "http://news.example.org/a b?c=1&d"
    done = await rig.run("article.sh", url, resource="news.example.org")
    assert (done.state, done.message) == (JobState.COMPLETED, "comments are fetched three times")
    comments = JobSpec("command", "comments.sh", (url,), "news.example.org")
    assert done.effects.followups == tuple(
        FollowUp(comments, f"{url} {hours}", hours * 3600) for hours in (12, 24, 48)
    )
    done = await rig.run("comments.sh", "http://news.example.org/a")
    assert done.effects.notices == (JobNotice("http://news.example.org/a", "link", "recheck"),)


@pytest_twisted.ensureDeferred
async def test_cleaning(rig: Rig) -> None:
    await rig.start()
    done = await rig.run("clean.sh", "00")
    assert done.state is JobState.COMPLETED, done
    assert [json.loads(item) for item in done.effects.items] == [
        {"id": "00", "text": ' An "Article" & more\\ on Amsterdam '}
    ]
    assert (await rig.run("clean.sh", "99")).state is JobState.TEMPORARY


@pytest_twisted.ensureDeferred
async def test_tagging(rig: Rig) -> None:
    await rig.start()
    done = await rig.run("tag.sh", "00", "amsterdam", "rotterdam", "Art", "article")
    assert [json.loads(item) for item in done.effects.items] == [
        {"id": "tags of 00", "tags": ["amsterdam", "article"]}
    ]


@pytest_twisted.ensureDeferred
async def test_finding_duplicates(rig: Rig) -> None:
    await rig.start()
    first = await rig.run("duplicates.py", "00", "01", task=3)
    assert first.state is JobState.COMPLETED and not first.effects.items
    again = await rig.run("duplicates.py", "02", "00", task=3, data=first.effects.data)
    assert [json.loads(item) for item in again.effects.items] == [{"id": "duplicate 02", "duplicate_of": "01"}]
    assert (await rig.run("duplicates.py", "77")).state is JobState.TEMPORARY
    assert (await rig.run("duplicates.py")).state is JobState.PERMANENT


@pytest_twisted.ensureDeferred
async def test_linking(rig: Rig) -> None:
    await rig.start()
    done = await rig.run("link.py", "http://site/a", "03")
    assert done.effects.notices == (JobNotice("http://site/b?c=d", "link"), JobNotice("http://other/", "link"))
    assert done.message == "2 links"
