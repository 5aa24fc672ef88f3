"""A package from several machines, all of it real processes: what is in it is what the web servers have."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.packages import Unpacked
from tests.support.ports import free_port
from tests.support.processes.system import BIN, OriginServer, Site, files_of
from tests.support.processes.tree import Tree
from tests.support.waiting import PATIENCE_SECONDS, wait_for


@pytest.fixture
def tree(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[Tree]:
    """A central BOT-M and two machines whose content can be read over TCP, and a content user API elsewhere."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    tree = Tree(folder, origin, database_url, machines=2, robots=1)
    port = free_port()  # those of the machines have theirs
    with tree.configs["central"].open("a") as config:
        config.write(f'content_listen = "tcp:{port}:interface=127.0.0.1"\n')
        config.write(f'content_url = "http://127.0.0.1:{port}"\n')
    tree._configure("cu", f'[cu]\ncontent = "http://127.0.0.1:{port}"\n')
    yield tree
    tree.stop_all()


def export(tree: Tree, *arguments: str | Path, code: int = 0) -> dict[str, object]:
    """What ``lcc-export`` says is in the package."""
    done = subprocess.run(
        [BIN / "lcc-export", "--config", tree.configs["cu"], *arguments, "--json"],
        capture_output=True,
        text=True,
        cwd=tree.folder,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    said: dict[str, object] = json.loads(done.stdout)
    return said


def wait_cached(tree: Tree, sites: list[Site]) -> None:
    """Until the cache has what the sites have."""

    def complete() -> bool:
        return all(
            {path: row["md5"] for path, row in tree.cached(site).items()} == dict(files_of(site.folder))
            for site in sites
        )

    wait_for("all is cached", complete)


def check(package: Path, sites: list[Site]) -> Unpacked:
    """It has each file of each site, and nothing else."""
    found = Unpacked(package.read_bytes())
    expected = {
        site.url + str(path.relative_to(site.folder)): path.read_bytes()
        for site in sites
        for path in site.folder.rglob("*")
        if path.is_file()
    }
    assert found.contents() == expected
    return found


@pytest.mark.long
def test_content_of_all_machines(tree: Tree, lay_out: Callable[[str, int], Path], tmp_path: Path) -> None:
    for name in ("one", "two", "three", "four"):
        lay_out(name, 12)
    sites = [tree.add_site(name) for name in ("one", "two", "three", "four")]
    tree.start(*tree.names)
    for site in sites:
        tree.publish_when_up(site)
    wait_cached(tree, sites)
    wait_for("the content user API", (tree.folder / "cu" / "cu.sock").exists)
    package = tmp_path / "all.tar.gz"
    first = export(tree, "tar.gz", "-o", package, "--since", "0")
    found = check(package, sites)
    assert {row["fetched_machineid"] for row in found.rows} == {1, 2}
    assert export(tree, "warc", "-o", tmp_path / "all.warc.gz")["files"] == 48
    subprocess.run([BIN / "warcio", "check", tmp_path / "all.warc.gz"], check=True, timeout=60)

    # One page changes, one goes.
    changed, gone, *_ = sorted(sites[0].folder.rglob("*.*"))
    changed.write_bytes(b"another text")
    gone.unlink()
    tree.publish(sites[0])
    wait_cached(tree, sites)
    export(tree, "tar", "-o", tmp_path / "news.tar", "--since", str(first["next"]))
    news = Unpacked((tmp_path / "news.tar").read_bytes())
    assert list(news.contents().values()) == [b"another text"]
    assert [row["curl"].rpartition("/")[2] for row in news.rows if row["state"] == "deleted"] == [gone.name]

    # A machine is away: the package has the others' content and says what is missing; later it has all.
    tree.kill("botm2")
    away = export(tree, "tar", "-o", tmp_path / "part.tar", code=5)
    part = Unpacked((tmp_path / "part.tar").read_bytes())
    missing = [row["fetched_machineid"] for row in part.rows if "missing" in row]
    reasons = {row["missing"] for row in part.rows if "missing" in row}
    assert all("machine 2" in reason or "refused" in reason for reason in reasons), reasons
    assert missing == [2] * len(missing) and len(missing) == away["missing"] and away["files"] == 47 - len(missing)
    tree.start("botm2")
    tree.start(*[name for name in tree.robot_names if name.startswith("bot2") and name not in tree.processes])

    def complete() -> bool:
        try:
            return export(tree, "tar.gz", "-o", package)["missing"] == 0
        except AssertionError:
            return False

    wait_for("all content is there again", complete)
    check(package, sites)
