"""From version 0.1.0, whose code is in the history of this repository: its processes do half of the work, those of
this version the other half; and each wire has one of each at its ends.

Where there is no history (an archive of the source, a shallow clone) these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.mixed import Mixed, code_of_0_1_0
from tests.support.processes.system import BIN, OriginServer, Site
from tests.support.waiting import wait_for

ROLES = ("uns", "qm", "botm", "bot")


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of version 0.1.0."""
    return code_of_0_1_0(tmp_path_factory.mktemp("0.1.0"))


@pytest.fixture
def mixed(tmp_path: Path, origin: OriginServer, former: Path) -> Iterator[Mixed]:
    """An LCC of version 0.1.0; nothing runs yet."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = Mixed(folder, origin, former)
    yield system
    system.stop_all()


def write(site: Site, **pages: str | None) -> None:
    """Pages of a site, and what stands in them; None: they go."""
    site.folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        path = site.folder / f"{name}.html"
        if text is None:
            path.unlink()
        else:
            path.write_text(f"<p>{text}</p>")


def changes(system: Mixed, token: str) -> tuple[list[dict[str, Any]], str]:
    """What has changed since, and the next token."""
    rows = [json.loads(line) for line in system.admin("urls", "--since", token, "--json").splitlines()]
    return rows[:-1], rows[-1]["next"]


def by_hand(system: Mixed, site: Site, url: str) -> str:
    """A command that tells of one URL."""
    tool = f"{BIN}/lcccp --uns=127.0.0.1:{system.port} --pid={site.pid} --no-end-mark"
    return f'echo \'<url c="{url}" m="text/html"/>\' | {tool}'


@pytest.mark.long
def test_an_upgrade_with_work_queued(mixed: Mixed) -> None:
    """Pages that are cached, URLs that are queued, sets that are spooled, an order of the operator; the state file
    and the password of a provider, the token of a content user, the configuration."""
    mixed.former |= {*ROLES, "tools"}
    site, other, gone = (mixed.add_site(name) for name in ("one", "other", "gone"))
    for each in (site, other, gone):
        write(each, a="first", b="first", c="first", d="first")
    mixed.start(*ROLES)
    for each in (site, other, gone):
        mixed.publish_when_up(each)
        mixed.wait_cached(each)
    _, token = changes(mixed, "0")
    files = {row["path"] for row in mixed.cached(site).values()}
    # Queued: nobody fetches any more.
    mixed.stop("bot")
    mixed.kill("botm")
    write(site, a="second", b=None, e="new")
    mixed.publish(site)
    wait_for("they are queued", lambda: sum(row["queued"] for row in mixed.rows("queue")) >= 2)
    # Spooled: nobody queues any more.
    mixed.kill("qm")
    write(site, c="second", f="new")
    write(other, a=None, d="second")
    mixed.publish(site)
    mixed.publish(other)
    mixed.admin("provider", "remove", str(gone.pid), "--yes")
    mixed.kill("uns")

    mixed.former.clear()
    mixed.admin("init")
    mixed.start(*ROLES)
    rows = mixed.wait_cached(site)
    mixed.wait_cached(other)
    wait_for("the removed provider's pages have gone", lambda: not mixed.cached(gone))
    # No name of a file is used twice.
    changed = {rows[name]["path"] for name in ("a.html", "c.html", "e.html", "f.html")}
    assert not changed & files
    # The content user goes on where it was.
    found, following = changes(mixed, token)
    seen = {row["curl"].removeprefix(mixed.origin.url("")[:-1]): row["state"] for row in found}
    assert {curl for curl, state in seen.items() if state == "deleted"} >= {"one/b.html", "other/a.html"}
    assert {"one/a.html", "one/c.html", "one/e.html", "one/f.html", "other/d.html"} <= seen.keys()
    # So does the provider, with what its tools have kept: only what differs is submitted.
    asked = len(mixed.origin.requests())
    write(site, f="third")
    mixed.publish(site)
    mixed.wait_cached(site)
    assert [request["path"] for request in mixed.origin.requests()[asked:]] == ["/one/f.html"]
    assert [row["curl"] for row in changes(mixed, following)[0]] == [f"{site.url}f.html"]
    assert not any(mixed.rows("fsck")[-1]["summary"]["found"].values())
    mixed.assert_serial()
    for name in reversed(ROLES):
        mixed.stop(name)


MIXES = {
    "robot": {"bot"},
    "botm": {"botm"},
    "botm and robot": {"botm", "bot"},
    "provider": {"tools"},
    "all but the robot": {"uns", "qm", "botm", "admin", "tools"},
    "all but the botm": {"uns", "qm", "bot", "admin", "tools"},
    "all but the provider": {"uns", "qm", "botm", "bot", "admin"},
}
"""Who is of version 0.1.0.  UNS and queue manager use the database: they are upgraded together, and first."""


@pytest.mark.long
@pytest.mark.parametrize("of_former", MIXES.values(), ids=MIXES)
def test_one_end_of_a_wire_is_newer(mixed: Mixed, of_former: set[str]) -> None:
    mixed.former = set(of_former)
    mixed.admin("init")
    site = mixed.add_site("one")
    write(site, **{f"p{number}": "first" for number in range(12)})
    mixed.start(*ROLES)
    mixed.publish_when_up(site)
    mixed.wait_cached(site)
    write(site, p0=None, p1="second", p2="second", q="new")
    (site.folder / "p3.html").touch()
    mixed.publish(site)
    mixed.wait_cached(site)
    # A fault is told, in words that both know.
    write(site, missing="soon gone")
    command = by_hand(mixed, site, "http://elsewhere.example/x")
    refused = mixed.as_provider(site, command)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    # And either end may go and come back.
    mixed.kill("bot")
    mixed.kill("botm")
    write(site, p4="third", missing=None)
    mixed.publish(site)
    mixed.start("bot", "botm")
    mixed.wait_cached(site)
    mixed.assert_serial()
    for name in reversed(ROLES):
        mixed.stop(name)


@pytest.mark.long
def test_a_downgrade_is_refused_with_words(mixed: Mixed) -> None:
    """Version 0.1.0 finds the database of this one, and changes nothing in it."""
    mixed.former.clear()
    mixed.admin("init")
    site = mixed.add_site("one")
    write(site, a="first")
    mixed.start(*ROLES)
    mixed.publish_when_up(site)
    before = mixed.wait_cached(site)
    for name in reversed(ROLES):
        mixed.stop(name)
    mixed.former |= {*ROLES, "tools"}
    mixed.start("uns", "qm")
    words = "this program knows 1 only; use a newer one"
    wait_for("the queue manager has said why", lambda: words in mixed.log("qm"))
    assert mixed.processes["qm"].wait(60) is not None
    # The provider's tool does not know what stands in the state file, and says so.
    refused = mixed.publish(site, expect=(2,))
    assert "is not a state file; nothing is sent" in refused.stderr
    # The UNS, which asks the database who a provider is, takes nothing.
    command = by_hand(mixed, site, f"{site.url}a.html")

    def refused_by_hand() -> bool:
        assert mixed.as_provider(site, command).returncode in (3, 4)
        return words in mixed.log("uns")

    wait_for("the UNS has said why", refused_by_hand)
    mixed.stop_all()
    with pytest.raises(AssertionError, match=words):
        mixed.former.add("admin")
        mixed.admin("status")
    mixed.former.clear()
    mixed.start(*ROLES)
    mixed.publish_when_up(site)
    assert mixed.wait_cached(site) == before
