"""Two LCCs behind a front end, real processes: an LCC that ran before, a newcomer, and a sub-LCC that goes away."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

from lcc.client.blocking import Cache
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import SetBegin, SetEnd, write_url
from tests.support.browser import Visitor
from tests.support.processes.front_end import FrontEnd, sub_lcc
from tests.support.processes.system import OriginServer, Site
from tests.support.waiting import wait_for

from .databases import SQLITE_ALWAYS

LayOut = Callable[[str, int], Path]


@SQLITE_ALWAYS
def test_two_lccs_look_like_one(
    tmp_path: Path, origin: OriginServer, lay_out: LayOut, database_url: str | None
) -> None:
    front_url = database_url or f"sqlite:{tmp_path}/fe.sqlite"
    old = sub_lcc(tmp_path, "old", origin, front_url, 1)
    new = sub_lcc(tmp_path, "new", origin, front_url, 10_001)
    front = FrontEnd(tmp_path / "front", front_url)
    try:
        lay_out("first", 3)
        newcomers = lay_out("second", 4)
        old.start("all")
        new.start("all")
        first = old.add_site("first")
        for name, lcc in (("old", old), ("new", new)):
            url = f"sqlite:{lcc.folder}/home/lcc.db"
            notifiers = f"unix:{lcc.folder}/home/notify-{{role}}.sock"
            uns = f"tcp:127.0.0.1:{lcc.port}"
            content = f"unix:{lcc.folder}/home/content.sock"
            options = ("--notifiers", notifiers, "--content", content)
            front.admin("fe", "add", name, "--uns", uns, "--database", url, *options)
        front.start("fe-uns", "fe-rs", "fe-cu")

        # A provider of an LCC that ran before, by the new address; then the LCC has more than the other one.
        _publish_in_the_end(front, first)
        assert len(old.wait_cached(first)) == 3
        wait_for("both have reported", lambda: [row["files"] for row in front.rows("fe", "list")] == [3, 0])

        visitor = Visitor(front.rs_port)
        site = origin.url("second")
        given = wait_for("the registration server answers", lambda: _asked(visitor, site))
        (newcomers / given["file"]).write_text(f"{given['secret']}\n")
        done = visitor.api(f"/{given['ticket']}/check", {}).json()
        (newcomers / given["file"]).unlink()
        assert done["pid"] == 10_000_001
        assert front.admin("fe", "where", str(done["pid"])) == "new\n"
        second = Site(done["pid"], given["password"], "second", newcomers, site, front.folder / "second.state")
        front.publish(second)
        assert len(new.wait_cached(second)) == 4 and not old.cached(second)
        wrong = Site(second.pid, "wrong", "second", newcomers, site, front.folder / "wrong.state")
        assert "1010" in front.publish(wrong, expect=(3,)).stderr

        # A notifier of both.
        _notify(front.folder / "home" / "notify-scheduler.sock", (first, second))

        # Both caches are one: rows, a page's content, a package, an answer over XML.
        with Cache(f"unix:{front.folder}/home/cu.sock") as users:
            rows = list(users.urls())
            assert sorted({row["pid"] for row in rows}) == [first.pid, second.pid] and len(rows) == 7
            for row in (rows[0], rows[-1]):
                assert hashlib.md5(users.content(row["key"]).read()).hexdigest() == row["md5"]
            package = b"".join(users.package("tar").pieces())
        with tarfile.open(fileobj=io.BytesIO(package)) as tar:
            assert len(tar.getnames()) >= 7
        # One sub-LCC is away: its providers are told to try again later, the others' notice nothing.
        new.kill("all")
        (newcomers / "later.txt").write_text("later\n")
        assert "1012" in front.publish(second, expect=(3,)).stderr
        front.publish(first)
        new.start("all")
        _publish_in_the_end(front, second)
        assert len(new.wait_cached(second)) == 5
        for name in ("fe-uns", "fe-rs", "fe-cu"):
            front.stop(name)
    finally:
        for each in (front, old, new):
            each.stop_all()


def _notify(path: Path, sites: tuple[Site, ...]) -> None:
    """Tell a set of each of these, and wait for the answers."""
    with socket.socket(socket.AF_UNIX) as notifier:
        notifier.settimeout(30)
        notifier.connect(str(path))
        notifier.sendall(Hello(role="scheduler", name="n1", epoch="e1").open_tag().encode())
        for number, site in enumerate(sites, 1):
            told = SetBegin(number, site.pid, "polled").to_xml() + write_url({"c": site.url}) + SetEnd(1).to_xml()
            notifier.sendall(told.encode())
        heard = b""
        while b'<accepted upto="%d"/>' % len(sites) not in heard:
            data = notifier.recv(65536)
            assert data, heard
            heard += data


def _publish_in_the_end(front: FrontEnd, site: Site) -> None:
    """The front end, or its sub-LCC, may only be starting."""
    wait_for("the set is accepted", lambda: front.publish(site, expect=(0, 3, 4)).returncode == 0)


def _asked(visitor: Visitor, site: str) -> dict[str, str] | None:
    try:
        reply = visitor.api("", {"contact": "me@example.org", "site": site})
    except OSError:
        return None
    found: dict[str, str] = reply.json()
    return None if reply.status == 503 else found
