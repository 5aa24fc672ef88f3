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

from tests.support.processes.mixed import Mixed, MixedTree, code_of_0_1_0
from tests.support.processes.system import BIN, OriginServer, Site, files_of
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


def pages_of(*sites: Site) -> dict[str, str]:
    """Curl -> md5 of each page that there is."""
    return {site.url + path: md5 for site in sites for path, md5 in files_of(site.folder)}


def remaining(pages: dict[str, str]) -> dict[str, str]:
    """Those that are not deleted."""
    return {curl: md5 for curl, md5 in pages.items() if md5}


def by_hand(system: Mixed, site: Site, url: str) -> str:
    """A command that tells of one URL."""
    tool = f"{BIN}/lcccp --uns=127.0.0.1:{system.port} --pid={site.pid} --no-end-mark"
    return f'echo \'<url c="{url}" m="text/html"/>\' | {tool}'


def test_an_upgrade_with_work_queued(mixed: Mixed) -> None:
    """Pages that are cached, URLs that are queued, sets that are spooled, an order of the operator; the state file
    and the password of a provider, the tokens of content users, the configuration."""
    mixed.config.write_text(mixed.config.read_text() + '[cu]\nwithout_token = "nothing"\n')
    mixed.former |= {*ROLES, "cu", "tools", "user"}
    address, key = f"unix:{mixed.folder}/home/cu.sock", mixed.add_user()
    site, other, gone = (mixed.add_site(name) for name in ("one", "other", "gone"))
    for each in (site, other, gone):
        write(each, a="first", b="first", c="first", d="first")
    mixed.start(*ROLES, "cu")
    for each in (site, other, gone):
        mixed.publish_when_up(each)
    for each in (site, other, gone):
        mixed.wait_cached(each)
    _, token = changes(mixed, "0")
    known = mixed.read(address, key, "0")
    assert known.pages == pages_of(site, other, gone)
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
    mixed.kill("cu")

    mixed.former.clear()
    mixed.admin("init")
    mixed.start(*ROLES, "cu")
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
    # So does one who asks lcc-cu: what it was told by that of 0.1.0, and what it is told now, is all that there is.
    told = mixed.read(address, key, known.token)
    assert remaining(known.pages | told.pages) == pages_of(site, other)
    assert set(told.pages) == {*(row["curl"] for row in found)}, "it is told what has changed, no more"
    # So does the provider, with what its tools have kept: only what differs is submitted.
    asked = len(mixed.origin.requests())
    write(site, f="third")
    mixed.publish(site)
    mixed.wait_cached(site)
    assert [request["path"] for request in mixed.origin.requests()[asked:]] == ["/one/f.html"]
    assert [row["curl"] for row in changes(mixed, following)[0]] == [f"{site.url}f.html"]
    assert mixed.read(address, key, told.token).pages.keys() == {f"{site.url}f.html"}
    assert not any(mixed.rows("fsck")[-1]["summary"]["found"].values())
    mixed.assert_serial()
    for name in ("cu", *reversed(ROLES)):
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


@pytest.mark.long
def test_the_uns_may_come_first(mixed: Mixed) -> None:
    """It changes the tables, and the queue manager of 0.1.0 goes on with them until it is replaced."""
    mixed.former |= {*ROLES, "tools"}
    site = mixed.add_site("one")
    write(site, a="first", b="first", c="first")
    mixed.start(*ROLES)
    mixed.publish_when_up(site)
    mixed.wait_cached(site)
    _replace(mixed, "uns")
    mixed.former.discard("admin")
    write(site, a="second", b=None, d="new")
    mixed.publish_when_up(site)
    mixed.wait_cached(site)
    _replace(mixed, "qm", "botm", "bot")
    write(site, c="second", d=None, e="new")
    mixed.publish_when_up(site)
    mixed.wait_cached(site)
    assert not any(mixed.rows("fsck")[-1]["summary"]["found"].values())
    mixed.assert_serial()
    for name in reversed(ROLES):
        mixed.stop(name)


@pytest.mark.long
def test_a_rolling_upgrade_while_content_users_read(tmp_path: Path, origin: OriginServer, former: Path) -> None:
    """As doc/galera.md has it, with a central BOT-M: each of queue manager, central BOT-M, BOT-M, UNS, ``lcc-cu`` and
    content user meets the other version of its peers, and what users were told adds up to what is cached."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    lcc = MixedTree(folder, origin, former)
    try:
        _roll(lcc)
    finally:
        lcc.stop_all()


def _roll(lcc: MixedTree) -> None:
    robots = ("botm1", "bot1a")
    lcc.former |= {"uns", "qm", "central", *robots, "cu", "tools", "user"}
    key, site = lcc.add_user(), lcc.add_site("one")
    write(site, a="first", b="first", c="first")
    lcc.start("uns", "qm", "central", *robots, "cu")
    lcc.admin_config = lcc.configs["botm1"]
    lcc.publish_when_up(site)
    lcc.wait_cached(site)
    begun = lcc.read(lcc.cu["cu"], key, "0")
    assert begun.pages == pages_of(site)
    lcc.former.discard("user")
    assert lcc.read(lcc.cu["cu"], key, "0") == begun, "a newer user reads the same"

    # The queue manager, alone.  Through a central BOT-M that is older nothing is fetched.
    _replace(lcc, "qm")
    lcc.former.discard("admin")
    write(site, a="second", b=None, d="new")
    lcc.publish_when_up(site)
    wait_for("they are queued", lambda: sum(row["queued"] for row in lcc.rows("queue")) >= 2)
    wait_for("the operator is told", lambda: "gets no orders: " in lcc.log("qm"))
    asked = len(lcc.origin.requests())
    # lcc-cu of 0.1.0 goes on with the new tables, and so does the new one, with content from BOT-Ms of 0.1.0.
    lcc.start("cu2")
    there = {f"{site.url}c.html": begun.pages[f"{site.url}c.html"]}
    for name in ("cu", "cu2"):
        assert there.items() <= remaining(lcc.read(lcc.cu[name], key, "0").pages).items(), name
    assert len(lcc.origin.requests()) == asked

    # The central BOT-M, then the other one with its robot; the UNS and a content user stay.
    _replace(lcc, "central")
    lcc.wait_cached(site)
    _replace(lcc, *robots)
    write(site, c="third", e="new")
    lcc.publish_when_up(site)
    lcc.wait_cached(site)
    lcc.former.add("user")
    old = lcc.read(lcc.cu["cu"], key, begun.token)
    new = lcc.read(lcc.cu["cu2"], key, begun.token)
    assert new.token and remaining(begun.pages | new.pages) == pages_of(site), "it goes on with its token of 0.1.0"
    assert old.pages == new.pages, "so it is told by lcc-cu of 0.1.0"
    # Who changes between the two has to start again, and is told so; doc/galera.md.
    write(site, c="fourth")
    lcc.publish_when_up(site)
    lcc.wait_cached(site)
    for name, token in (("cu2", old.token), ("cu", new.token)):
        told = lcc.read(lcc.cu[name], key, token)
        assert not told.token, name
        assert remaining(lcc.read(lcc.cu[name], key, "0").pages) == pages_of(site), name

    # Last the UNS, the other lcc-cu, and those outside.
    lcc.stop("cu")
    _replace(lcc, "uns")
    lcc.former.clear()
    lcc.start("cu")
    write(site, d=None, f="new")
    lcc.publish_when_up(site)
    lcc.wait_cached(site)
    last = lcc.read(lcc.cu["cu"], key, new.token)
    assert remaining(begun.pages | new.pages | last.pages) == pages_of(site)
    assert lcc.fsck(1).keys() <= {"undecided"}
    lcc.assert_serial()
    for name in ("cu", "cu2", *reversed(robots), "central", "qm", "uns"):
        lcc.stop(name)


def _replace(system: Mixed, *names: str) -> None:
    """Processes of this version in place of those of 0.1.0."""
    for name in names:
        system.kill(name)
        system.former.discard(name)
    system.start(*names)
