"""The script of doc/content-users.md, run as it stands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.domain.keys import url_key
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost

A = "http://a.example.org/"
PAGE = Path(__file__).parents[2] / "doc" / "content-users.md"


def test_it_needs_python_alone() -> None:
    """No other package, not even a module of the standard library that a script beside it may be named like."""
    code = "import sys; before = set(sys.modules); import lcc.client.blocking; print(*set(sys.modules) - before)"
    command = [sys.executable, "-S", "-c", code]  # without site-packages
    done = subprocess.run(command, cwd=PAGE.parents[1], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "copy" not in done.stdout.split()
    ours = {name for name in done.stdout.split() if name.startswith("lcc")}
    assert ours == {"lcc", "lcc.numbers", "lcc.client", "lcc.client.addresses", "lcc.client.blocking"}


def put(cache: Cache, host: ContentHost, name: str, text: bytes, mimetype: str = "text/html") -> str:
    cache.put(1, A + name, mimetype, len=len(text), fetched_fileid=host.add(text))
    return url_key(1, A + name, mimetype).hex()


@pytest_twisted.ensureDeferred
async def test_the_script(backend: Backend, cache: Cache, host: ContentHost, tmp_path: Path) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    script, folder = tmp_path / "copy.py", tmp_path / "copy"
    script.write_text(text)
    folder.mkdir()
    _, token = add_user(cache)
    api = Api(backend, "")

    async def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), f"http://127.0.0.1:{api.port}", str(folder), token]
        done: subprocess.CompletedProcess[str] = await deferToThread(
            lambda: subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        )
        return done

    try:
        one, two = put(cache, host, "1", b"one"), put(cache, host, "2", b"two")
        put(cache, host, "3", b"no text", "image/png")
        assert (await run()).returncode == 0
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"} == {
            one: b"one",
            two: b"two",
        }
        cache.delete(1, A + "1")
        put(cache, host, "2", b"changed")
        assert (await run()).returncode == 0
        assert not (folder / one).exists() and (folder / two).read_bytes() == b"changed"
        assert json.loads((folder / "state.json").read_text())["names"] == {two: A + "2"}
        cache.database.now(lambda txn: txn.execute("UPDATE meta SET value = 'x' WHERE name = 'epoch'"))
        done = await run()
        assert done.returncode == 1 and "begin again" in done.stderr
    finally:
        await api.stop()
