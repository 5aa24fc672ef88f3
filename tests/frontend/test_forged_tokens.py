"""Forged tokens at a real ``lcc-fe-cu``: each gets a clear answer, and nobody else notices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from urllib.parse import urlencode

import pytest

from lcc.client.blocking import Cache, CacheError, UnixConnection
from lcc.model.frontend.moves import MoveState
from lcc.numbers import INT64_MAX
from tests.frontend.moving import Front
from tests.support.processes.front_end import FrontEnd
from tests.support.roles.qm import pages
from tests.support.switches import LONG
from tests.support.waiting import wait_for

FORGED = 2000 if LONG else 300
NUMBERS = ("0", "1", "2", "7", "999", str(INT64_MAX), str(INT64_MAX + 1), str(1 << 64), "9" * 19, "9" * 400)
TEXTS = (
    "",
    "-1",
    "+1",
    " 1",
    "1_0",
    "0x1",
    "1e9",
    "x",
    "~",
    ".",
    "é",
    "\u0661",
    "\x00",
    "\r\n",
    "' OR 1=1 --",
    "%",
    "f1",
)


class Users:
    """Content users of a front end over two sub-LCCs, between which a provider has moved there and back.

    :ivar front: the sub-LCCs, in this process; ``process``: the front end's.
    """

    def __init__(self, folder: Path) -> None:
        self.front = Front(folder)
        self._sets = 0
        self.pids = [self._publish(number, 12) for number in (1, 2)]
        for number, dest in enumerate((2, 1, 2), 1):
            self.front.order(self.pids[0], dest)
            self.front.go_until(MoveState.DONE, number)
            self.change(100 + number)
        self.process = FrontEnd(folder / "front", self.front.database_url)
        self.socket = f"{self.process.folder}/home/cu.sock"
        self.process.start("fe-cu")
        self.cache = Cache(f"unix:{self.socket}", timeout_seconds=60)
        wait_for("it answers", self._answers)

    def _answers(self) -> bool:
        try:
            return bool(list(self.cache.urls(limit=1)))
        except CacheError:
            return False

    def _publish(self, number: int, count: int) -> int:
        sub = self.front.sub(number)
        pid = sub.world.provider()
        self._set(sub.number, pid, range(count))
        return pid

    def change(self, page: int) -> None:
        """A page of each provider is new."""
        for pid in self.pids:
            self._set(self.front.place_of(pid) if pid == self.pids[0] else 2, pid, [page])

    def _set(self, number: int, pid: int, numbers: range | list[int]) -> None:
        self._sets += 1
        self.front.site.update({f"http://site.example/{page}.html": f"page {page}" for page in numbers})
        self.front.sub(number).send(self._sets, pid, *pages(*numbers), connseq=self._sets << 50)
        self.front.go(2)

    def ask(self, since: str, limit: int | None = None) -> tuple[int, bytes]:
        """Status and body of an answer about changes; it must be whole."""
        fields = {"since": since} | ({} if limit is None else {"limit": limit})
        connection = UnixConnection(self.socket, 60)
        try:
            connection.request("GET", f"/changes?{urlencode(fields)}")
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def copy(self, since: str = "0") -> tuple[dict[str, str], str]:
        """What somebody has who has read all changes since a token; and the next token."""
        found: dict[str, str] = {}
        rows = self.cache.changes(since)
        for row in rows:
            found[row["key"]] = row["md5"]
        assert rows.token is not None
        return found, rows.token

    def close(self) -> None:
        self.cache.close()
        self.process.stop_all()
        self.front.close()


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    made = Users(tmp_path)
    yield made
    made.close()


def forge(token: str, random: Random) -> str:
    """A token that was not given out, in a few places."""
    parts = [part.split(".") for part in token.split("~")]
    for _ in range(random.choice((1, 1, 2, 4))):
        part = random.choice(parts)
        at = random.randrange(len(part))
        what = random.randrange(8)
        if what < 3:
            part[at] = random.choice(NUMBERS)
        elif what == 3:
            part[at] = random.choice(TEXTS)
        elif what == 4:
            letter = random.choice("fibkz")
            part.append(letter + random.choice(NUMBERS))
            if letter == "k":
                part.append(random.choice(("00" * 20, "ff" * 20, "0" * 39, "zz" * 20, "")))
        elif what == 5:
            parts.append(list(random.choice(parts)))
        elif what == 6:
            random.shuffle(parts)
        else:
            del part[at]
            if not part:
                part.append("")
    return "~".join(".".join(part) for part in parts)


def test_forged_tokens_are_answered_and_harm_nobody(users: Users) -> None:
    random = Random(21)
    _, begun = users.copy()
    partly = json.loads(users.ask("0", 5)[1].splitlines()[-1])["next"]
    users.change(200)
    whole, token = users.copy()
    news, _ = users.copy(begun)
    assert len(news) == 2 and len(whole) == 2 * (12 + 4)

    said: dict[int, set[str]] = {}
    for _ in range(FORGED):
        forged = forge(random.choice((begun, partly, token)), random)
        for _again in range(3):  # what it is given for it is asked for as well
            status, body = users.ask(forged, random.choice((None, 1, 3)))
            assert status in (200, 400, 410, 503), (forged, status, body)
            lines = body.splitlines()
            if status != 200:
                reply = json.loads(body)
                said.setdefault(status, set()).add(str(reply["error"]))
                assert reply["error"], forged
                break
            assert "next" in json.loads(lines[-1]), (forged, body)
            forged = json.loads(lines[-1])["next"]
    # Tokens that are too long, or of a front end with too many sub-LCCs.
    for large in ("9" * 5000, begun + "~7.x.1.1" * 900):
        assert users.ask(large)[0] in (400, 410, 414, 431)
    assert {400, 410} <= said.keys(), said

    # Whoever has an honest token has missed nothing, and is told nothing again.
    assert users.copy(begun)[0] == news and users.copy()[0] == whole
    assert users.copy(token)[0] == {}
    users.change(201)
    assert len(users.copy(token)[0]) == 2
    users.process.stop("fe-cu")  # without complaint
    log = users.process.log("fe-cu")
    assert "#error" not in log and "#critical" not in log, log[-3000:]


def test_a_forged_epoch_is_another_front_ends(users: Users) -> None:
    _, token = users.copy()
    head, *subs = token.split("~")
    for at in range(2, len(subs)):
        fields = subs[at].split(".")
        other = [*subs[:at], ".".join([fields[0], "0" * len(fields[1]), *fields[2:]]), *subs[at + 1 :]]
        status, body = users.ask("~".join([head, *other]))
        assert status == 410, body
    # Of a flip that there was not: it might be that the front end's database was put back.
    status, body = users.ask("~".join([head, subs[0], "999", *subs[2:]]))
    assert status == 503, body
    status, body = users.ask("~".join([head, "abc", *subs[1:]]))
    assert status == 400 and b"another selection" in body


def test_what_no_token_is_is_refused(users: Users) -> None:
    for text in (
        "fe2",
        "fe2~",
        "fe2~0~0~",
        "fe3~0~0",
        "fe1~~",
        "fe2~g~0",
        "fe2~0~-1",
        "fe2~0~0~1.a.1",
        "\x00",
        "fe2~0~0~0.a.1.1",
    ):
        status, body = users.ask(text)
        assert status == 400, (text, body)
        assert json.loads(body)["faults"], text
