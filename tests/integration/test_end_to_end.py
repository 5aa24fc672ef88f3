"""The main job with real processes: notify, fetch, keep, read; on both databases, in any order of starting."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.support.processes.system import ROLES, System, files_of
from tests.support.waiting import wait_for

from .databases import MARIADB_ALWAYS, SQLITE_ALWAYS, by_turns

LayOut = Callable[[str, int], Path]


def changes_since(system: System, token: str) -> tuple[list[dict[str, object]], str]:
    """The changes after a token, and the next token."""
    *rows, last = system.rows("urls", "--since", token)
    return rows, str(last["next"])


@by_turns("shape", "separate", "all-in-one")
def test_publish_change_delete_and_read(system: System, lay_out: LayOut, shape: str) -> None:
    folder = lay_out("site", 200)
    if shape == "separate":
        system.start(*ROLES)
    else:
        system.start("all")
    site = system.add_site("site")
    system.publish_when_up(site)
    system.wait_cached(site)
    system.assert_serial()
    rows, token = changes_since(system, "")
    assert len(rows) == 200
    assert {row["state"] for row in rows} == {"cached"}
    assert {row["pid"] for row in rows} == {site.pid}

    asked_before = len(system.origin.requests())
    files = [path for path, _ in files_of(folder)]
    changed, deleted, added = files[:3], files[3:5], ["new/page.html", "new/empty.html"]
    for path in changed:
        (folder / path).write_text(f"<html>changed {path}</html>")
    for path in deleted:
        (folder / path).unlink()
    (folder / "new").mkdir()
    (folder / added[0]).write_text("<html>new</html>")
    (folder / added[1]).write_text("")
    system.publish(site)
    system.wait_cached(site)
    rows, next_token = changes_since(system, token)
    told = {(str(row["curl"]).removeprefix(site.url), row["state"]) for row in rows}
    assert told == {(p, "cached") for p in changed + added} | {(p, "deleted") for p in deleted}
    # Only what changed has travelled.
    asked = [request["path"] for request in system.origin.requests()[asked_before:]]
    assert sorted(asked) == sorted(f"/site/{path}" for path in changed + added)
    assert next_token != token
    assert changes_since(system, next_token) == ([], next_token)
    # Publishing again without a change sends and fetches nothing.
    system.publish(site)
    assert changes_since(system, next_token) == ([], next_token)
    assert len(system.origin.requests()) == asked_before + len(asked)
    assert system.rows("queue") == []
    for role in ROLES if shape == "separate" else ("all",):
        system.stop(role)


def connections_at(path: Path) -> int:
    """How many are connected to this UNIX socket, as the kernel tells."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    connected = "03"
    return sum(line.split()[5] == connected and line.endswith(f" {path}") for line in lines[1:])


@SQLITE_ALWAYS
def test_roles_in_one_process_need_no_sockets_and_others_find_them_there(system: System, lay_out: LayOut) -> None:
    lay_out("site", 40)
    system.start("all")
    site = system.add_site("site")
    system.publish_when_up(site)
    system.wait_cached(site)
    home = system.folder / "home"
    sockets = [home / name for name in ("qm.sock", "qm-botm.sock", "botm.sock")]
    assert all(path.is_socket() for path in sockets)
    assert [connections_at(path) for path in sockets] == [0, 0, 0]
    # A robot more, in a process of its own.
    text = system.config.read_text()
    system.config.write_text(text.replace("[bot]\n", '[bot]\nname = "more"\n'))
    system.start("bot2")
    wait_for("the second robot is there", lambda: connections_at(sockets[2]) == 1)
    wait_for("it is shown", lambda: "more" in system.admin("status", "--json"))
    for number in range(40):
        (site.folder / f"later{number}.html").write_text(f"<html>{number}</html>")
    system.publish(site)
    system.wait_cached(site)
    system.assert_serial()
    system.stop("bot2")
    (site.folder / "last.html").write_text("<html>without it</html>")
    system.publish(site)
    system.wait_cached(site)
    system.stop("all")
    assert not any(path.exists() for path in sockets)


@SQLITE_ALWAYS
def test_any_order_of_starting(system: System, lay_out: LayOut) -> None:
    lay_out("site", 20)
    site = system.add_site("site")
    order = list(ROLES)
    for turn in range(3):
        random.Random(turn).shuffle(order)
        (site.folder / f"turn{turn}.html").write_text(f"<html>{order}</html>")
        for role in order:
            system.start(role)
        system.publish_when_up(site)
        system.wait_cached(site)
        for role in reversed(order):
            system.stop(role)


@SQLITE_ALWAYS
def test_the_uns_takes_sets_while_everything_else_is_down(system: System, lay_out: LayOut) -> None:
    lay_out("site", 50)
    site = system.add_site("site")
    system.start("uns")
    system.publish_when_up(site)
    (site.folder / "later.html").write_text("<html>in a second set</html>")
    system.publish(site)
    system.kill("uns")
    system.start("uns")
    system.start("bot", "botm", "qm")
    system.wait_cached(site)
    system.assert_serial()


@MARIADB_ALWAYS
def test_errors_are_shown_at_the_next_connection_and_cleared_by_an_accepted_set(
    system: System, lay_out: LayOut
) -> None:
    lay_out("site", 5)
    system.start(*ROLES)
    site = system.add_site("site")
    system.publish_when_up(site)
    system.wait_cached(site)
    # Told, but gone when the robot comes.
    (site.folder / "gone.html").write_text("<html>here for a moment</html>")
    system.kill("bot")
    system.publish(site)
    (site.folder / "gone.html").unlink()
    system.start("bot")
    wait_for("the robot has asked", lambda: any("gone" in r["path"] for r in system.origin.requests()))
    wait_for("the queue is empty", lambda: system.rows("queue") == [])
    shown = system.publish(site)
    assert "gone.html" in shown.stderr
    assert "404" in shown.stderr
    (site.folder / "other.html").write_text("<html>other</html>")
    system.publish(site)
    assert "gone.html" not in system.publish(site).stderr


@SQLITE_ALWAYS
def test_two_of_a_role_in_one_home_are_refused(system: System) -> None:
    system.start("qm")
    wait_for("the queue manager runs", lambda: "locked" not in system.log("qm") and (system.folder / "home").exists())
    wait_for("it has its lock", lambda: (system.folder / "home" / "qm.lock").exists())
    system.start("qm2")
    assert system.processes["qm2"].wait(60) != 0
    assert "qm.lock is locked" in system.log("qm2")
    assert system.processes["qm"].poll() is None
