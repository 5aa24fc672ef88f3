"""``lcc-admin show`` as a process of its own, with content read through a real content port."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator

import attrs
import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from tests.support.admin import Lcc
from tests.support.cache import Cache
from tests.support.databases import Backend, DirectDatabase
from tests.support.servers.content_host import ContentHost

ROOT = "http://www.example.org/"
URL = f"{ROOT}page.html"
HTML = b"<p>All about content.</p>\n"


@attrs.frozen
class Showing:
    """An LCC with a cache and a content port."""

    lcc: Lcc
    host: ContentHost
    cache: Cache

    def put(self, data: bytes, mimetype: str = "text/html", pid: int = 1) -> None:
        headers = json.dumps(["Server", "test", "Content-Type", mimetype])
        self.cache.put(pid, URL, mimetype, len=len(data), fetched_fileid=self.host.add(data), headers=headers)

    async def show(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        program = "from lcc.admin.cli import main; main()"
        command = [sys.executable, "-c", program, "--config", str(self.lcc.config_path), "show", *arguments]
        done: subprocess.CompletedProcess[bytes] = await deferToThread(
            lambda: subprocess.run(command, capture_output=True, timeout=60, check=False)
        )
        return done


@pytest_twisted.async_yield_fixture
async def showing(lcc: Lcc, backend: Backend) -> AsyncIterator[Showing]:
    database = DirectDatabase(backend.url, lcc.folder / "home")
    host = ContentHost(lcc.folder / "home")
    for _ in range(2):
        lcc.admin("provider", "add", "--root", ROOT)
    yield Showing(lcc, host, Cache(database))
    await host.stop()
    database.blocking.close()


@pytest_twisted.ensureDeferred
@pytest.mark.long("mariadb")
async def test_row_and_content(showing: Showing) -> None:
    showing.put(HTML)
    done = await showing.show(URL)
    assert done.returncode == 0 and done.stdout.endswith(b"\n\n" + HTML), done
    row = done.stdout.decode()
    for part in ("pid:               1", "mimetype:          text/html", "header:            Server: test", " UTC"):
        assert part in row
    done = await showing.show("HTTP://www.Example.org:80/page.html", "--json")
    record = json.loads(done.stdout)
    assert (record["curl"], record["headers"]) == (URL, [["Server", "test"], ["Content-Type", "text/html"]])
    done = await showing.show(URL, "--rows-only")
    assert HTML not in done.stdout


@pytest_twisted.ensureDeferred
async def test_content_into_a_file(showing: Showing) -> None:
    data = bytes(range(256)) * 5000
    showing.put(data, "image/png")
    target = showing.lcc.folder / "out.png"
    done = await showing.show(URL, "-o", str(target))
    assert (done.returncode, target.read_bytes()) == (0, data)
    done = await showing.show(URL, "-o", "-")
    assert (done.stdout, b"image/png" in done.stderr) == (data, True)
    done = await showing.show(URL, "-o", str(showing.lcc.folder / "no" / "folder"))
    assert done.returncode == 1 and b"No such file" in done.stderr
    done = await showing.show(URL, "-o", "/dev/full")
    assert done.returncode == 1 and b"No space left" in done.stderr and b"Traceback" not in done.stderr


@pytest_twisted.ensureDeferred
async def test_which_one(showing: Showing) -> None:
    done = await showing.show(URL)
    assert done.returncode == 1 and b"is not in the cache" in done.stderr
    showing.put(HTML)
    showing.put(b"{}", "application/json")
    showing.put(b"other", pid=2)
    done = await showing.show(URL)
    assert done.returncode == 1 and b"--provider 1 --mimetype application/json" in done.stderr
    done = await showing.show(URL, "--provider", "1", "--mimetype", "application/json", "-o", "-")
    assert done.stdout == b"{}"
    assert (await showing.show(URL, "--provider", "2", "-o", "-")).stdout == b"other"
    assert (await showing.show("page.html")).returncode == 2


@pytest_twisted.ensureDeferred
@pytest.mark.long("mariadb")
async def test_commands_that_are_shown_can_be_given_to_a_shell(showing: Showing) -> None:
    """Names that strangers chose: legal URLs and mime types that a shell would take for commands."""
    url = f"{ROOT}a;$(id)&b'c"
    done = await showing.show(url)
    (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("Next: ")]
    assert shlex.split(line) == ["Next:", "lcc-admin", "why", url, "tells", "more"]
    for mimetype in ("text/`id`", "text/$x"):
        showing.put(b"x", mimetype)
    done = await showing.show(URL)
    (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("Next: ")]
    assert shlex.split(line)[4:8] == ["--provider", "1", "--mimetype", "text/$x,"]
    assert shlex.split(line)[8:] == ["--provider", "1", "--mimetype", "text/`id`"]
    showing.cache.put(1, url, "text/html", len=1, fetched_fileid=None, fetched_machineid=None)
    done = await showing.show(url)
    assert shlex.split(done.stderr.decode().partition("Next: ")[2])[:3] == ["lcc-admin", "why", url]


@pytest_twisted.ensureDeferred
async def test_headers_steer_no_terminal(showing: Showing) -> None:
    headers = json.dumps(["Server", "\x1b]0;x\x07\x9b2J"])
    showing.cache.put(1, URL, "text/html", len=1, fetched_fileid=showing.host.add(b"x"), headers=headers)
    done = await showing.show(URL, "--rows-only")
    assert "Server: \N{REPLACEMENT CHARACTER}]0;x" in done.stdout.decode()
    assert not set("\x1b\x07\x9b") & set(done.stdout.decode())


@pytest_twisted.ensureDeferred
async def test_content_that_is_missing(showing: Showing) -> None:
    showing.put(HTML)
    showing.host.folder.remove(1)
    done = await showing.show(URL)
    assert done.returncode == 1 and b"cannot read its content" in done.stderr
    assert b"Traceback" not in done.stderr
