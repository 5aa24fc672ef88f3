"""The recipes of doc/provider.md: as they stand there, against a real UNS and push server in this process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import attrs
import pytest_twisted
from twisted.internet import reactor

from lcc.config import parse_config
from lcc.model import Provider
from lcc.services import push, uns
from lcc.services.process.environment import real_environment
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.providers.passwords import generate_token, hash_password
from lcc.storage.providers.providers import add_provider, change_provider, get_provider
from lcc.transport.links import PortService
from tests.support.documents import ROOT
from tests.support.waiting import until

from .test_provider_pipeline import shell

PAGE = ROOT / "doc" / "provider.md"
PASSWORD = "0123456789abcdef"


def recipe(words: str) -> str:
    """The commands of the recipe that is announced by these words."""
    return (
        PAGE.read_text(encoding="utf-8")
        .partition(words)[2]
        .partition("```sh")[2]
        .partition("\n")[2]
        .partition("```")[0]
    )


@attrs.define
class Lcc:
    """A UNS, whose spool has what was told, and a push server."""

    folder: Path
    uns_port: int
    push_port: int

    def filled(self, commands: str) -> str:
        """The commands with what is there."""
        commands = commands.replace("lcc.example.org:9000", f"127.0.0.1:{self.uns_port}")
        return commands.replace("https://push.example.org:9743", f"http://127.0.0.1:{self.push_port}")

    @property
    def told(self) -> list[str]:
        """What stands in the sets of the spool, set by set."""
        return [path.read_text() for path in sorted((self.folder / "h" / "spool").glob("*.set"))]


@asynccontextmanager
async def an_lcc(folder: Path) -> AsyncIterator[Lcc]:
    listen = 'listen = "tcp:0:interface=127.0.0.1"'
    config = parse_config(f'home = "h"\n[uns]\n{listen}\n[push]\n{listen}', folder)
    config.home.mkdir()
    database = BlockingDatabase(config.database.url, config.home, config.database, random=Random(1))
    hashed = hash_password(PASSWORD, generated=True)
    for _ in range(7):
        pid = database.write(add_provider, Provider(0, ("http://site/",), hashed))
        hashed = hash_password(PASSWORD, generated=True)
    assert pid == 7
    token = generate_token(pid)
    provider = database.interact(get_provider, pid)
    assert provider is not None
    database.write(change_provider, attrs.evolve(provider, token_hash=hash_password(token, generated=True)))
    database.close()
    (folder / "password").write_text(PASSWORD)
    (folder / "header").write_text(f"Authorization: Bearer {token}\n")
    (folder / "curl.conf").write_text(f'user = "7:{PASSWORD}"\n')
    roles = [uns.build(config, real_environment(reactor)), push.build(config, real_environment(reactor))]
    for role in roles:
        role.startService()
    try:
        ports = {each.setting: each for role in roles for each in role if isinstance(each, PortService)}
        found = [ports[name].bound_port.getHost().port for name in ("uns.listen", "push.listen")]
        await until(lambda: dict(roles[1].commands.est())["push server"] == "accepts pushes")
        yield Lcc(folder, *found)
    finally:
        for role in reversed(roles):
            await role.stopService()


@pytest_twisted.ensureDeferred
async def test_a_static_site_generator(tmp_path: Path) -> None:
    async with an_lcc(tmp_path) as lcc:
        (tmp_path / "public").mkdir()
        (tmp_path / "public" / "index.html").write_text("built")
        out, err, code = await shell(tmp_path, lcc.filled(recipe("**A static site generator**")))
        assert code == 0 and "accepted: a set of 1 URL" in out, err
        [told] = lcc.told
        assert "http://site/index.html" in told


@pytest_twisted.ensureDeferred
async def test_a_git_hook(tmp_path: Path) -> None:
    async with an_lcc(tmp_path) as lcc:
        tree = tmp_path / "tree"
        tree.mkdir()

        def git(*words: str) -> None:
            named = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
            subprocess.run(["git", *named, *words], cwd=tree, check=True, capture_output=True)

        git("init", "-q", "-b", "live")
        (tree / "old.html").write_text("old")
        git("add", "."), git("commit", "-qm", "1"), git("checkout", "-qb", "next")
        (tree / "old.html").unlink()
        (tree / "new.html").write_text("new")
        git("add", "-A"), git("commit", "-qm", "2"), git("checkout", "-q", "live")
        hook = tree / ".git" / "hooks" / "post-merge"
        hook.write_text(lcc.filled(recipe("**A git hook**")))
        hook.chmod(0o755)
        out, err, code = await shell(tree, "git -c user.name=a -c user.email=a@example.org merge -q next 2>&1")
        assert code == 0 and '{"accepted":true,"received":2,"refused":0}' in out + err, out + err
        # Once more: it is the same set.
        out, err, code = await shell(tree, str(hook))
        assert json.loads(out)["accepted"] and len(lcc.told) == 1
        assert "http://site/new.html" in lcc.told[0] and "http://site/old.html" in lcc.told[0]


@pytest_twisted.ensureDeferred
async def test_a_web_hook(tmp_path: Path) -> None:
    async with an_lcc(tmp_path) as lcc:
        out, err, code = await shell(tmp_path, lcc.filled(recipe("**The web hook of a content management system**")))
        assert (code, json.loads(out)) == (0, {"accepted": True, "received": 1, "refused": 0}), err
        assert "http://site/news.html" in lcc.told[0]
        (tmp_path / "header").write_text("Authorization: Bearer lcc_7_0000\n")
        out, err, code = await shell(tmp_path, lcc.filled(recipe("**The web hook of a content management system**")))
        assert code != 0 and json.loads(out)["code"] == 1010
