"""Where providers are, and what moves: ``why``, ``status``, ``provider show``, of a sub-LCC and of its front end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lcc.admin.context import Admin
from lcc.model.frontend.places import AtHome
from lcc.storage.fe import moves
from lcc.storage.fe.sublccs import get_sublcc, report_vitals
from tests.frontend.kit import NOW, vitals
from tests.frontend.test_admin import UNS, FrontEnd
from tests.support.admin import Lcc

PAGE = "http://a.example/1.html"


class World:
    """A front end over sub-LCCs one and two; one has provider 1."""

    def __init__(self, front: FrontEnd) -> None:
        self.front = front
        self.subs: dict[str, Lcc] = {}
        for name in ("one", "two"):
            lcc, url = front.lcc(name)
            front.admin("fe", "add", name, *UNS, "--database", url)
            with lcc.config_path.open("a") as file:
                file.write(f'[fe]\ndatabase = "sqlite:{front.folder}/fe/fe.sqlite"\nname = "{name}"\n')
            self.subs[name] = lcc
        self.one, self.two = self.subs["one"], self.subs["two"]
        self.one.admin("provider", "add", "--root", "http://a.example/")

    def order(self) -> moves.Move:
        def order(txn: Any) -> moves.Move:
            return moves.order_move(txn, 1, get_sublcc(txn, "two"), None, NOW)

        return self.front.write(order)  # type: ignore[no-any-return]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(Admin, "now", lambda _: NOW)
    front = FrontEnd(tmp_path)
    front.admin("fe", "init")
    return World(front)


def test_why_says_where_a_provider_is(world: World) -> None:
    for lcc in (world.front, world.one):
        said = lcc.admin("why", PAGE).stdout
        assert "belongs to provider 1, by its root http://a.example/\n    in sub-LCC one\n" in said
    assert world.one.rows("why", PAGE)[0]["providers"][0]["place"] == {"sublcc": "one", "state": "here", "move": None}
    assert world.two.admin("why", PAGE).stdout == (
        f"{PAGE}\n  belongs to provider 1 in sub-LCC one, by its root http://a.example/\n"
    )
    assert "no provider has a root" in world.two.admin("why", "http://b.example/").stdout
    assert "no provider has a root" in world.front.admin("why", "http://b.example/").stdout
    assert "not in this LCC: in sub-LCC one" in world.two.admin("why", PAGE, "--provider", "1", code=1).stderr
    assert "belongs to provider 1" in world.front.admin("why", PAGE, "--provider", "1").stdout
    assert "no sub-LCC has" in world.front.admin("why", PAGE, "--provider", "99000000", code=1).stderr


def test_a_sub_lcc_that_cannot_be_asked_is_named(world: World) -> None:
    (world.one.folder / "home" / "lcc.db").unlink()
    for lcc in (world.front, world.two):
        assert "sub-LCC one may have it: sub-LCC one: there is no sqlite:" in lcc.admin("why", PAGE).stdout


def test_what_a_move_is_called(world: World) -> None:
    move = world.order()
    show = lambda: world.one.admin("provider", "show", "1").stdout  # noqa: E731
    assert "moving from sub-LCC one to two: planned, 0 rows copied" in show()
    move = world.front.write(moves.begin_copying, move, NOW)
    move = world.front.write(moves.note_progress, move, {"rows": 1200, "content_left": 1}, "slow", NOW)
    moving = "moving from sub-LCC one to two: copying, 1,200 rows copied, 1 file left; slow"
    assert f"place:                in sub-LCC one; {moving}\n" in show()
    assert moving in world.front.admin("provider", "show", "1").stdout
    world.front.write(moves.freeze, move, NOW)
    assert "in sub-LCC one; standing still: who logs in waits; moving from sub-LCC one" in show()
    assert world.one.rows("provider", "show", "1")[0]["place"]["state"] == AtHome.FROZEN.value
    world.front.write(moves.cancel_move, 1, "too much", NOW)
    assert "in sub-LCC one; its move from sub-LCC one to two was cancelled at" in show()


def test_who_has_moved_is_found_from_where_it_was(world: World) -> None:
    move = world.front.write(moves.begin_copying, world.order(), NOW)
    move = world.front.write(moves.freeze, move, NOW)
    world.front.write(lambda txn: moves.obeyed(txn, moves.get_fence(txn, 1, 1)))  # type: ignore[arg-type]
    world.front.write(moves.activate, world.front.write(moves.flip, move, ("a", 1), NOW), NOW)
    world.one.write(lambda txn: txn.execute("DELETE FROM pidb"))
    said = world.one.admin("provider", "show", "1", code=1).stderr
    assert "provider 1 is not in this LCC: in sub-LCC two; moving from sub-LCC one to two: active" in said
    assert "there is no provider 77\n" in world.one.admin("provider", "show", "77", code=1).stderr


def test_status_of_a_sub_lcc_and_of_the_front_end(world: World) -> None:
    world.order()
    world.front.write(report_vitals, "two", vitals(2, files=5, time=NOW - 10))
    moving = "moves         provider 1: moving from sub-LCC one to two: planned, 0 rows copied\n"
    assert world.front.admin("status").stdout == (
        "sub-LCC       one: open, has not reported yet\n"
        f"sub-LCC       two: open, 1 provider, 5 files, 0 URLs queued; reported 10 seconds ago\n{moving}"
    )
    for name, lcc in world.subs.items():
        said = lcc.admin("status").stdout
        assert f"front end     this is sub-LCC {name} of 2\n{moving}" in said
    (record,) = world.one.rows("status")
    assert [move["pid"] for move in record["front_end"]["moves"]] == [1]
    (world.front.folder / "fe" / "fe.sqlite").unlink()
    assert "front end     unknown: no front end here" in world.one.admin("status").stdout
    assert "in which sub-LCC, is unknown: no front end here" in world.one.admin("why", PAGE).stdout
