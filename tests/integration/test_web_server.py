"""A whole LCC and a real nginx: compressed pages, pages that have not changed, wrong types, TLS sessions."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.ports import listens
from tests.support.processes.system import BIN, Site, System
from tests.support.servers.nginx import Nginx, Secure
from tests.support.waiting import wait_for

from .databases import SQLITE_ALWAYS, by_turns
from .test_end_to_end import changes_since

LayOut = Callable[[str, int], Path]
PAGES = 12
LONG_AGO = int(time.time()) - 86_400


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    (tmp_path / "www").mkdir(exist_ok=True)
    (tmp_path / "tls").mkdir()
    key, certificate, _ = Authority().write(tmp_path / "tls", "localhost")
    server = Nginx(tmp_path / "www", tmp_path / "nginx", Secure(key, certificate))
    yield server
    server.stop()


@pytest.fixture
def system(tmp_path: Path, nginx: Nginx, database_url: str | None) -> Iterator[System]:
    """An LCC whose robot opens a new connection for each fetch, so that TLS sessions matter."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    extra = f'keepalive = 0\ncontact = "webmaster@lcc.example"\nextra_roots = "{tmp_path}/tls/authority.pem"\n'
    system = System(folder, nginx, database_url, extra)
    yield system
    system.stop_all()


def age(folder: Path, seconds: int = LONG_AGO) -> None:
    """All files were modified then."""
    for path in folder.rglob("*"):
        os.utime(path, (seconds, seconds))


def tell(system: System, site: Site, elements: str) -> None:
    """Tell of what these hand-made elements say, and wait until the queue has done it."""
    command = [BIN / "lcccp", f"--uns=127.0.0.1:{system.port}", f"--pid={site.pid}", f"--urlprefix={site.url}"]
    done = subprocess.run(
        [*command, "--no-end-mark", "--quiet"],
        input=elements,
        text=True,
        capture_output=True,
        env=dict(system.environment, LCC_PASSWORD=site.password),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for("the queue is empty", lambda: system.rows("queue") == [])


def logged(nginx: Nginx, count: int, path: str = "") -> list[dict[str, Any]]:
    """What it was asked, once so many requests are written down: that happens after the answer."""
    wait_for("nginx has logged it", lambda: len(nginx.asked(path)) >= count)
    return nginx.asked(path)


def element(path: str, mimetype: str, **more: str) -> str:
    attributes = "".join(f' {name}="{value}"' for name, value in more.items())
    return f'<url c="{path}" m="{mimetype}"{attributes}/>\n'


def told_again(rows: dict[str, dict[str, Any]]) -> str:
    """That these pages may have changed; nothing else is known of them."""
    return "".join(element(path, row["mimetype"]) for path, row in rows.items())


@by_turns("scheme", "http", "https")
def test_pages_that_have_not_changed_are_confirmed(
    system: System, nginx: Nginx, lay_out: LayOut, scheme: str
) -> None:
    folder = lay_out("site", PAGES)
    (folder / "picture.png").write_bytes(b"\x89PNG" + os.urandom(5000))
    age(folder)
    system.start("all")
    if scheme == "http":
        site = system.add_site("site")
    else:
        nginx_url, nginx.url = nginx.url, nginx.secure_url  # type: ignore[method-assign]
        site = system.add_site("site")
        nginx.url = nginx_url  # type: ignore[method-assign]
    system.publish_when_up(site)
    rows = system.wait_cached(site)  # each file's md5 is that of the page, whatever travelled
    first = {request["path"]: request for request in logged(nginx, PAGES + 1)}
    assert len(first) == PAGES + 1 == len(nginx.asked())
    for path, row in rows.items():
        request = first[f"/site/{path}"]
        assert request["status"] == 200 and request["asked"] == "" and request["since"] == ""
        assert request["agent"] == "LCC/0.1 (+webmaster@lcc.example)"
        assert request["from"] == "webmaster@lcc.example"
        assert request["accept"] == f"{row['mimetype']}, */*;q=0.1"
        if request["coding"] == "gzip":
            assert request["etag"].startswith("W/")  # nginx weakens the tags of what it compresses
            assert request["sent"] < row["len"]
    assert "gzip" in {request["coding"] for request in first.values()}
    assert first["/site/picture.png"]["coding"] == ""
    _, token = changes_since(system, "")

    # Told again without a word about the content: nothing travels but headers, and each page is confirmed.
    time.sleep(1.1)  # confirmed_time is in whole seconds
    tell(system, site, told_again(rows))
    again = logged(nginx, 2 * (PAGES + 1))[PAGES + 1 :]
    assert {request["path"] for request in again} == set(first)
    assert [request["status"] for request in again] == [304] * (PAGES + 1)
    for request in again:
        assert request["asked"] == first[request["path"]]["etag"]
        assert request["since"]
        assert request["sent"] < 500
    confirmed = system.cached(site)
    assert confirmed.keys() == rows.keys()
    for path, row in confirmed.items():
        assert row == rows[path]
        assert Path(row["path"]).stat().st_size == row["len"]
    (provider,) = json.loads(system.admin("why", site.url + "picture.png", "--json"))["providers"]
    (view,) = provider["views"]
    assert view["cached"]["confirmed_time"] > view["cached"]["fetched_time"]
    assert changes_since(system, token)[0] == []

    # Touched: the same bytes under another entity tag travel once, and are no change.
    age(folder, LONG_AGO + 60)
    system.publish(site)
    wait_for("the queue is empty", lambda: system.rows("queue") == [])
    touched = logged(nginx, 3 * (PAGES + 1))[2 * (PAGES + 1) :]
    assert [request["status"] for request in touched] == [200] * (PAGES + 1)
    assert changes_since(system, token)[0] == []
    tell(system, site, told_again(rows))
    told = logged(nginx, 4 * (PAGES + 1))[3 * (PAGES + 1) :]
    assert [request["status"] for request in told] == [304] * (PAGES + 1)

    # Changed.
    page = next(path for path in sorted(rows) if path.endswith((".html", ".txt")))
    (folder / page).write_text("<html>changed</html>")
    system.publish(site)
    system.wait_cached(site)
    assert [str(row["curl"]) for row in changes_since(system, token)[0]] == [site.url + page]
    if scheme == "https":
        assert {request["server_name"] for request in logged(nginx, 4 * (PAGES + 1) + 1)} == {"localhost"}
        resumed = [request["resumed"] for request in nginx.asked()]
        assert resumed[0] == "." and set(resumed[1:]) == {"r"}
        # One connection for each fetch, so that this was needed.
        assert len({request["connection"] for request in nginx.asked()}) == len(resumed)
    system.stop("all")


@pytest.mark.long
def test_a_page_that_changes_twice_in_a_second_is_not_mistaken(system: System, nginx: Nginx, lay_out: LayOut) -> None:
    """Its time and its length, of which nginx makes its entity tags, are the same (where the machine is quick)."""
    folder = lay_out("site", 1)
    page = folder / "page.html"
    system.start("all")
    site = system.add_site("site")
    system.publish_when_up(site)
    system.wait_cached(site)
    for turn in range(5):
        page.write_text(f"<html>version {turn}a</html>")
        tell(system, site, element("page.html", "text/html"))
        page.write_text(f"<html>version {turn}b</html>")
        tell(system, site, element("page.html", "text/html"))
        row = system.cached(site)["page.html"]
        assert Path(row["path"]).read_text() == f"<html>version {turn}b</html>"


@SQLITE_ALWAYS
def test_a_page_of_another_type_is_an_error_and_other_views_stay(
    system: System, nginx: Nginx, lay_out: LayOut
) -> None:
    folder = lay_out("site", 1)
    (folder / "page.html").write_text("<html>page</html>")
    (folder / "page.unknown").write_text("what nginx does not know")
    age(folder)
    system.start("all")
    site = system.add_site("site")
    tell_all = element("page.html", "text/html") + element("page.html", "application/pdf")
    wait_for("the port is open", lambda: listens(system.port))
    tell(system, site, tell_all + element("page.unknown", "text/csv"))
    rows = system.rows("urls", "--provider", str(site.pid))
    views = {(row["curl"].removeprefix(site.url), row["mimetype"]) for row in rows if row["state"] == "cached"}
    assert views >= {("page.html", "text/html"), ("page.unknown", "text/csv")}
    assert ("page.html", "application/pdf") not in views
    (error,) = system.rows("errors", "--provider", str(site.pid))
    assert error["code"] == 1408
    assert "told application/pdf, got text/html" in str(error)
    # The content that was right stays, whatever the server calls it later; the next one is looked at in full.
    nginx_types = nginx.log.parent / "nginx.conf"
    nginx_types.write_text(nginx_types.read_text().replace("text/html html", "text/plain html"))
    os.kill(nginx.process.pid, 1)  # SIGHUP: it reads its configuration again

    def said() -> bool:
        tell(system, site, element("page.html", "text/html", mtime=str(time.time_ns() // 10**9)))
        return any("got text/plain" in str(row) for row in system.rows("errors", "--provider", str(site.pid)))

    os.utime(folder / "page.html", (LONG_AGO + 5, LONG_AGO + 5))
    wait_for("the new type is noticed", said)
    row = system.cached(site)["page.html"]
    assert Path(row["path"]).read_text() == "<html>page</html>"
    before = nginx.asked("/site/page.html")
    tell(system, site, element("page.html", "text/html"))
    after = logged(nginx, len(before) + 1, "/site/page.html")
    assert (before[-1]["status"], after[-1]["asked"]) == (200, "")
