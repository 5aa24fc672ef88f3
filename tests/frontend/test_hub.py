"""The hub of a front end: subscribers hear of the changes of all sub-LCCs, each once, also of one that was away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lcc.domain.push.websub import WebSubRefused
from lcc.roles.cu.front.subs import AWAY_SECONDS
from lcc.roles.cu.hub.positions import Position, covers, position_of, token_at
from lcc.storage.hub.subscribers import list_subscribers
from tests.frontend.hubs import HOST, TOPIC, FrontHub
from tests.support.roles.front_worlds import Worlds


def _running(home: Path, url: Callable[[str], str]) -> Iterator[FrontHub]:
    worlds = Worlds(home, url)
    front = FrontHub(worlds)
    front.pass_time(2)
    yield front
    front.hub.stop()
    worlds.subs.stop()
    worlds.close()


@pytest.fixture
def front(tmp_path: Path) -> Iterator[FrontHub]:
    yield from _running(tmp_path, lambda name: f"sqlite:{tmp_path}/{name}.db")


@pytest.fixture
def front_on_mariadb(tmp_path: Path, mariadb: Any) -> Iterator[FrontHub]:
    yield from _running(tmp_path, lambda name: mariadb.new_database())


def test_changes_of_all_sub_lccs_are_delivered_once(front: FrontHub) -> None:
    _delivered_once(front)


def test_changes_are_delivered_once_on_mariadb(front_on_mariadb: FrontHub) -> None:
    _delivered_once(front_on_mariadb)


def _delivered_once(front: FrontHub) -> None:
    worlds = front.worlds
    worlds.put(1, "before")
    front.pass_time(2)
    front.subscribe()
    assert front.told() == []
    for number, pid in enumerate((1, 105, 201)):
        worlds.put(pid, f"new{number}")
    assert front.told() == ["new0", "new1", "new2"]
    worlds.delete(105, "new1")
    assert front.told() == ["-"] and front.told() == []
    # More than a document has, and a hub that is killed meanwhile.
    for number in range(250):
        worlds.put((1, 105, 201)[number % 3], f"{number:03}")
    front.kill()
    assert front.told() == [f"{number:03}" for number in range(250)]
    assert front.told() == [] and front.hub.trouble == ""


def test_of_a_sub_lcc_that_was_away_they_hear_later(front: FrontHub) -> None:
    worlds = front.worlds
    front.subscribe()
    worlds.database(2).away = True
    for pid, name in ((1, "a"), (105, "b"), (201, "c")):
        worlds.put(pid, name)
    assert front.told() == ["a", "c"]
    worlds.put(1, "d")
    assert front.told() == ["d"]
    asked = worlds.database(1).asked
    front.pass_time(60)
    assert worlds.database(1).asked - asked < 400, "it is not asked without a pause"
    worlds.database(2).away = False
    front.pass_time(AWAY_SECONDS + 1)
    assert front.told() == ["b"] and front.told() == []


def test_one_who_is_away_has_a_row_of_its_own_position(front: FrontHub) -> None:
    worlds = front.worlds
    front.subscribe(f"{TOPIC}?provider=105")
    front.callbacks.answers[HOST] = 503
    worlds.put(105, "first")
    worlds.put(1, "other")
    assert front.told() == []
    worlds.put(105, "second")
    front.kill()
    front.callbacks.answers[HOST] = 200
    front.pass_time(120)
    assert front.told() == ["first", "second"]
    (row,) = worlds.front.blocking.interact(list_subscribers, 10)
    assert row.timeline.startswith("fe2~") and row.number > 0


def test_a_topic_may_begin_with_a_token_and_forged_ones_are_refused(front: FrontHub) -> None:
    worlds = front.worlds
    worlds.put(1, "a")
    worlds.put(201, "b")
    front.pass_time(2)
    front.subscribe(f"{TOPIC}?since=0")
    assert front.told() == ["a", "b"]
    for token in ("fe1~", "fe1~0~1.other.1.0", "fe1~0~77.x.1.0", "x"):
        with pytest.raises(WebSubRefused, match="since"):
            front.subscribe(f"{TOPIC}?since={token}")


def test_a_restored_sub_lcc_begins_anew(front: FrontHub) -> None:
    worlds = front.worlds
    front.subscribe()
    worlds.put(105, "lost")
    assert front.told() == ["lost"]
    worlds.database(2).now(lambda txn: txn.execute("UPDATE meta SET value = 'x' WHERE name = 'epoch'"))
    front.pass_time(70)
    assert [each["hub.mode"] for each in front.callbacks.questions] == ["subscribe", "denied"]
    front.subscribe()
    worlds.put(105, "new")
    assert front.told() == ["new"]


def test_positions() -> None:
    first, second = position_of("fe1~abc~1.t.5.0~2.u.7.9"), position_of("fe1~abc~2.u.8.0~1.t.5.0")
    assert (first.number, second.number) == (12, 13)
    assert covers(second, first) and not covers(first, second)
    less = position_of("fe1~abc~2.u.20.0~1.t.4.0")
    assert less.number > first.number and not covers(less, first), "the sum alone does not say it"
    assert not covers(position_of("fe1~abc~1.t.50.0"), first)
    assert token_at(first, "abc") == "fe1~abc~1.t.5.0~2.u.7.9"
    single = position_of("t.5.9.abc")
    assert single == Position("t", 5) and token_at(single, "abc") == "t.5.0.abc" and covers(single, Position("t", 5))
