"""What doc/content-users.md says of the XML socket is what the code does."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted
from lxml import etree
from twisted.internet.threads import deferToThread

from lcc.errors import ERRORS
from lcc.protocols.cu import QUERY_LIMITS
from lcc.roles.cu.query import VALUES_MAX
from lcc.roles.cu.xml.asked import OTHERS
from tests.support.cache import Cache
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.roles.xml_users import DOC, SCHEMA, World, understand
from tests.support.servers.content_host import ContentHost

PAGE = (DOC / "content-users.md").read_text(encoding="utf-8")
TEXT = PAGE[PAGE.index("## Over an XML socket") : PAGE.index("## Following the changes")]
SAID = re.findall(r"```xml (cu|lcc)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def put(world: World, name: str, data: bytes) -> None:
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    world.put(f"http://www.example.org/{name}", data, md5=md5, charset="utf-8")


def test_the_conversation(world: World) -> None:
    world.database.now(lambda txn: txn.execute("UPDATE meta SET value = '8c1f6e02d4a94b7d' WHERE name = 'epoch'"))
    put(world, "birds.html", b"<h1>Birds</h1>\n")
    wire = world.connect()
    assert [who for who, _ in SAID] == ["cu", "lcc"] * 3
    for number, ((_, question), (_, answer)) in enumerate(zip(SAID[::2], SAID[1::2], strict=True)):
        if number == 1:
            put(world, "bees.html", b"<h1>Bees</h1>\n")
            world.cache.delete(1, "http://www.example.org/birds.html")
        wire.heard = b""
        world.say(wire, [question.encode()])
        assert wire.heard.decode() == re.sub("\n +", " ", answer)
        understand(wire.heard)


def test_the_schema_has_the_questions() -> None:
    for who, text in SAID:
        if who == "cu" and "colour" not in text:
            if "xmlns" not in text:
                text = text.replace("query", 'query xmlns:lococa="http://www.lococa.org/1.0"', 1)
            SCHEMA.assertValid(etree.fromstring(text))


def test_everything_is_explained() -> None:
    for name in OTHERS:
        assert f"| `{name}` |" in TEXT
    names = {each.get("name") for each in etree.parse(str(DOC / "cu.rng")).iter("{*}attribute")}
    for name in {"length", "missing", "next", "reason"}:
        assert name in names and f"{name}=" in TEXT
    reasons = re.findall("`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", TEXT[TEXT.index("| reason |") :], re.M)))
    rejected = etree.parse(str(DOC / "cu.rng")).find(".//{*}element[@name='lcc:rejected']//{*}choice")
    assert sorted(reasons) == sorted(each.text for each in rejected)
    assert {"syntax", "timeout"} <= set(reasons) & {entry.name for entry in ERRORS.values()}


def test_the_limits_are_right() -> None:
    for number in (QUERY_LIMITS.document_bytes, QUERY_LIMITS.value_chars, VALUES_MAX):
        assert f"{number:,}" in TEXT


@pytest_twisted.ensureDeferred
async def test_the_script(backend: Backend, cache: Cache) -> None:
    (script,) = re.findall(r"^```python xml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    host = ContentHost(backend.home)
    api = Api(backend, "")

    async def run(script: str = script) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, str(backend.home / "cu-xml.sock")]
        done: subprocess.CompletedProcess[str] = await deferToThread(
            lambda: subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        )
        return done

    try:
        for number in range(3):
            cache.put(1, f"http://a/{number}", len=number * 100_000, fetched_fileid=host.add(b"x" * number * 100_000))
        cache.delete(1, "http://a/1")
        done = await run()
        *rows, end = done.stdout.splitlines()
        assert rows == ["http://a/0 0 bytes", "http://a/2 200000 bytes"], done.stderr
        assert end.startswith("next: ")
        done = await run(script.replace('since="0"', 'since="x"'))
        assert (done.returncode, done.stdout) == (1, "") and "no token" in done.stderr
    finally:
        await api.stop()
        await host.stop()
