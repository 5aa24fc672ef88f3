"""The XML interface in memory: every cut of the bytes, back-pressure, waiting, faults, content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.protocols.cu import QUERY_LIMITS
from lcc.protocols.xmlfeed import NAMESPACE
from lcc.roles.access import access_token
from lcc.roles.cu.xml import contents
from lcc.storage.database.tables.timeline import continue_timeline
from lcc.storage.providers.content_users import ContentUser, add_content_user, remove_content_user
from lcc.storage.providers.passwords import generate_password, hash_password
from lcc.storage.views import selected
from tests.support.roles.xml_users import World, documents, query, understand
from tests.support.segments import segmentations

A = "http://a.example.org/"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def fill(world: World, count: int = 6) -> None:
    for number in range(count):
        world.put(f"{A}{number}?a=1&amp=<\"é'>", b"Content %d.\n" % number * 10, subtype='s: t,\t\n\r"\ufffe')


def test_every_cut_of_a_conversation(world: World) -> None:
    fill(world)
    world.cache.delete(1, f"{A}gone")
    conversation = (
        b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- hello -->'
        + query(provider="1 2", mimetype="text/* image/png")
        + b'  <lococa:query since="0" content="yes" limit="4"></lococa:query >'
        + b"<lococa:query colour='red'/>"
        + b'<?xml version="1.0" encoding="utf-8"?>'
        + query("", prefix=A, limit=1)
        + b"<query provider='2'/>"
    )
    wire = world.connect()
    world.say(wire, [conversation])
    expected = wire.heard
    rows, changes, rejected, first, none = [understand(each) for each in documents(expected)]
    assert len(rows.rows) == 6 and rows.end == {} and rows.rows[0]["subtype"].endswith('\t\n\r"\ufffd')
    assert [row["content"] for row in changes.rows] == [b"Content %d.\n" % n * 10 for n in range(4)]
    assert changes.end is not None and ".4." in changes.end["next"]
    assert rejected.reason == "question"
    assert (len(first.rows), none.rows, none.end) == (1, [], {})
    assert not wire.gone
    wire.protocol.readConnectionLost()
    assert wire.gone
    for pieces in segmentations(conversation):
        wire = world.connect()
        world.say(wire, pieces)
        assert wire.heard == expected, pieces


@pytest.mark.parametrize("prefix", ["lococa", "x", ""])
def test_answers_have_the_prefix_of_their_question(world: World, prefix: str) -> None:
    fill(world, 1)
    wire = world.connect()
    world.say(wire, [query(prefix), query(prefix, content="yes"), query(prefix, since="x")])
    colon = f"{prefix}:" if prefix else ""
    for document, name in zip(documents(wire.heard), ("answer", "answer", "rejected"), strict=True):
        assert document.startswith(f"<{colon}{name} ".encode())
        understand(document)


def test_following_the_changes(world: World) -> None:
    fill(world, 3)
    (told,) = world.ask(query(since="0", mimetype="text/html"))
    assert [row["change"] for row in told.rows] == ["1", "2", "3"] and told.end is not None
    world.cache.delete(1, f"{A}0?a=1&amp=<\"é'>")
    (later,) = world.ask(query(since=told.end["next"], mimetype="text/html", content="yes"))
    assert [(row["state"], row.get("content"), row.get("md5")) for row in later.rows] == [("deleted", None, None)]
    assert later.end is not None
    (nothing,) = world.ask(query(since=later.end["next"], mimetype="text/html"))
    assert (nothing.rows, nothing.end) == ([], later.end)
    (other,) = world.ask(query(since=later.end["next"], mimetype="image/png"))
    assert other.reason == "question" and "another selection" in other.faults[0][1]


def test_everything_that_is_wrong_is_named(world: World) -> None:
    text = (
        f'<q:query xmlns:q="{NAMESPACE}" provider="0 x" mimetype="html" limit="-1" prefix="nonsense" content="maybe"'
        ' wait="soon" colour="red" xml:lang="en" q:own="x" fetched_from="yesterday"><limit/><since/></q:query>'
    )
    (told,) = world.ask(text.encode())
    assert (told.root, told.reason) == ("rejected", "question")
    fields = [field for field, _ in told.faults]
    assert sorted(fields) == sorted(
        ["", "", "", "provider", "provider", "mimetype", "limit", "prefix", "content", "wait", "wait", "fetched_from"]
    )
    texts = [text for field, text in told.faults if not field]
    assert [text.split(" is not known")[0] for text in texts] == ["<limit>", "<since>", "'colour'"]


@pytest.mark.parametrize("field", ["provider", "mimetype", "limit", "fetched_from", "content", "wait"])
def test_an_empty_field_is_not_everything(world: World, field: str) -> None:
    fill(world, 1)
    (told,) = world.ask(f'<q:query xmlns:q="{NAMESPACE}" since="0" {field}=""/>'.encode())
    assert told.faults and {name for name, _ in told.faults} == {field}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"<query/>", "unknown-message"),
        (f'<p:ask xmlns:p="{NAMESPACE}"/>'.encode(), "unknown-message"),
        (f'<xml:query xmlns:xml="{NAMESPACE}" since="x"><a></xml:query>'.encode(), "syntax"),
        (b'<!DOCTYPE query SYSTEM "x"><query/>', "encoding"),
        (b"\xff\xfe<\x00q\x00>\x00", "encoding"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * QUERY_LIMITS.token_bytes, "limit"),
        (f'<query xmlns="{NAMESPACE}" prefix="{"x" * (QUERY_LIMITS.value_chars + 1)}"/>'.encode(), "limit"),
        (f'<query xmlns="{NAMESPACE}">'.encode() + b"<a/>" * 20_000 + b"</query>", "limit"),
    ],
)
def test_what_is_no_question(world: World, said: bytes, reason: str) -> None:
    fill(world, 1)
    wire = world.connect()
    world.say(wire, [query(limit=1)])
    world.say(wire, [said[start : start + 4096] for start in range(0, len(said), 4096)])
    world.say(wire, [query(limit=1)])
    first, rejected = (understand(each) for each in documents(wire.heard))
    assert len(first.rows) == 1
    assert (rejected.root, rejected.reason) == ("rejected", reason) and rejected.faults[0][1]
    assert wire.finished, "the stream is of no use any more"
    wire.protocol.readConnectionLost()
    assert wire.gone and not world.users.sessions


def test_a_thousand_providers(world: World) -> None:
    fill(world, 1)
    (told,) = world.ask(query(provider=" ".join(str(2_000_000_000 + n) for n in range(1000))))
    assert (told.rows, told.end) == ([], {})
    (told,) = world.ask(query(provider=" ".join(map(str, range(1, 1002)))))
    assert told.reason == "question" and "1000" in told.faults[0][1]


# Who may ask.


def add_user(world: World, providers: set[int] | None = None, content: bool = True) -> tuple[int, str]:
    secret = generate_password()
    hashed = hash_password(secret, generated=True)
    scope = None if providers is None else frozenset(providers)
    cuid = world.cache.database.now(add_content_user, ContentUser(0, "x", hashed, scope, content))
    return cuid, access_token(cuid, secret)


def test_tokens(tmp_path: Path) -> None:
    world = World(tmp_path, without_token="nothing")
    try:
        fill(world, 2)
        world.cache.put(2, A)
        cuid, partner = add_user(world, {2})
        _, rows_only = add_user(world, None, content=False)
        wrong = partner[:-32] + "0" * 32
        said = [
            query(),
            query(token=wrong),
            query(token=partner),
            query(token=rows_only),
            query(token=rows_only, content="yes"),
        ]
        none, unknown, two, all_rows, no_content = world.ask(*said)
        for told in (none, unknown, no_content):
            assert (told.root, told.reason, told.faults[0][0]) == ("rejected", "access-denied", "token")
            assert "nothing" not in str(told.faults) and wrong not in str(told.faults)
        assert [row["pid"] for row in two.rows] == ["2"]
        assert len(all_rows.rows) == 3
        wire = world.connect()
        world.say(wire, [query(token=partner)])
        assert world.cache.database.now(remove_content_user, cuid)
        world.say(wire, [query(token=partner)])
        assert [understand(each).root for each in documents(wire.heard)] == ["answer", "rejected"]
    finally:
        world.close()


def test_wrong_tokens_are_throttled_by_address(tmp_path: Path) -> None:
    world = World(tmp_path, without_token="nothing", failed_tokens=2)
    try:
        _, good = add_user(world, None)
        wrong = good[:-32] + "0" * 32
        for reason in ("access-denied", "access-denied", "try-later"):
            (told,) = world.ask(query(token=wrong), host="192.0.2.1")
            assert told.reason == reason
        (later,) = world.ask(query(token=good), host="192.0.2.1")
        (elsewhere,) = world.ask(query(token=good), host="192.0.2.2")
        (known,) = world.ask(query(token=good), host="192.0.2.1")
        assert (later.reason, elsewhere.root, known.root) == ("try-later", "answer", "answer")
    finally:
        world.close()


def test_rows_without_a_token(tmp_path: Path) -> None:
    world = World(tmp_path, without_token="rows")
    try:
        fill(world, 1)
        rows, content = world.ask(query(), query(content="yes"))
        assert len(rows.rows) == 1 and content.reason == "access-denied"
    finally:
        world.close()


# Waiting.


def test_waiting_for_the_next_change(world: World) -> None:
    fill(world, 1)
    (told,) = world.ask(query(since="0"))
    assert told.end is not None
    wire = world.connect()
    world.say(wire, [query(since=told.end["next"], wait=60, content="yes"), query(limit=1)])
    world.clock.pump([0.5] * 20)
    assert not wire.heard
    world.put(f"{A}new", b"new")
    world.clock.pump([0.5, 0])
    changed, next_one = (understand(each) for each in documents(wire.heard))
    assert [(row["curl"], row["content"]) for row in changed.rows] == [(f"{A}new", b"new")]
    assert len(next_one.rows) == 1, "the question after it had to wait"


def test_what_others_change_does_not_end_the_wait(world: World) -> None:
    wire = world.connect()
    world.say(wire, [query(since="0", provider=2, wait=60)])
    for number in range(5):
        world.cache.put(1, f"{A}{number}")
        world.clock.pump([0.5] * 4)
    assert not wire.heard
    world.cache.put(2, A)
    world.clock.advance(0.5)
    (told,) = [understand(each) for each in documents(wire.heard)]
    assert [row["pid"] for row in told.rows] == ["2"]


def test_who_waits_hears_at_once_that_a_backup_was_put_back(world: World) -> None:
    """Although the numbers of changes begin again below that of his token; another queue manager ends no wait."""
    fill(world)
    (told,) = world.ask(query(since="0"))
    assert told.end is not None
    wire = world.connect()
    world.say(wire, [query(since=told.end["next"], wait=60)])
    world.database.write(continue_timeline)
    world.clock.pump([0.5] * 4)
    assert not wire.heard and world.watcher.waiting == 1
    world.database.write(lambda txn: txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'"))
    world.database.write(lambda txn: txn.execute("UPDATE counters SET value = 2 WHERE name = 'change'"))
    world.clock.pump([0.5, 0])
    (lost,) = [understand(each) for each in documents(wire.heard)]
    assert (lost.root, lost.reason) == ("rejected", "start-again")


def test_nobody_waits_for_longer_than_allowed(tmp_path: Path) -> None:
    world = World(tmp_path, wait_max=10.0, idle_timeout=5.0)
    try:
        fill(world, 1)
        (told,) = world.ask(query(since="0"))
        assert told.end is not None
        wire = world.connect()
        world.say(wire, [query(since=told.end["next"], wait=3600)])
        world.clock.pump([0.25] * 36)
        assert not wire.heard and not wire.gone, "who waits for its answer is not idle"
        world.clock.pump([0.25] * 6)
        (empty,) = [understand(each) for each in documents(wire.heard)]
        assert (empty.rows, empty.end) == ([], told.end)
        world.clock.pump([0.25] * 16)
        assert not wire.finished, "its time begins when it was answered"
        world.clock.pump([0.25] * 8)
        assert wire.finished
    finally:
        world.close()


def test_who_goes_away_waits_no_longer(world: World) -> None:
    wire = world.connect()
    world.say(wire, [query(since="0", wait=60)])
    assert world.watcher.waiting == 1
    wire.abortConnection()
    assert world.watcher.waiting == 0 and not world.users.sessions
    world.clock.advance(100)
    assert not wire.heard


def test_nobody_begins_to_wait_at_the_end(world: World) -> None:
    world.watcher.stop()
    (told,) = world.ask(query(since="0", wait=60))
    assert told.rows == [] and told.end is not None


def test_the_end_of_the_service(world: World) -> None:
    wire, idle = world.connect(), world.connect()
    world.say(wire, [query(since="0", wait=60)])
    world.watcher.stop()
    world.users.drop_all()
    assert wire.gone and idle.gone and not world.users.sessions
    (told,) = [understand(each) for each in documents(wire.heard)]
    assert told.rows == [] and told.end is not None, "its place among the changes"


# Users that do not read, say nothing, or stop in the middle.


def test_who_does_not_read_costs_next_to_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 10)
    world.cache.fill(2000)
    wire = world.connect(room=10_000)
    world.say(wire, [query(), query(limit=1)])
    assert 10_000 < len(wire.value()) < 20_000 and not wire.heard
    length = 0
    while length < len(wire.heard) or not length:
        assert len(wire.value()) < 20_000
        length = len(wire.heard)
        wire.read()
        world.settle(wire)
    long, short = (understand(each) for each in documents(wire.heard))
    assert len({row["key"] for row in long.rows}) == 2000 and long.end == {}
    assert len(short.rows) == 1


def test_content_is_not_fetched_for_who_does_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "PIECE_BYTES", 3000)
    data = [bytes([number]) * 100_000 for number in range(3)]
    for number, each in enumerate(data):
        world.put(f"{A}{number}", each)
    wire = world.connect(room=20_000)
    world.say(wire, [query(since="0", content="yes")])
    assert len(world.folders.opened) == 5 and len(wire.value()) < 30_000
    while not wire.heard.endswith(b"answer>\n"):
        wire.read()
        world.settle(wire)
        assert len(wire.value()) < 30_000
    (told,) = [understand(each) for each in documents(wire.heard)]
    assert [row["content"] for row in told.rows] == data


def test_rows_without_their_content_wait_for_who_does_not_read_too(world: World) -> None:
    for number in range(100):
        world.cache.put(1, f"{A}{number}", fetched_fileid=None)
        world.cache.delete(1, f"{A}deleted/{number}")
    wire = world.connect(room=5_000)
    world.say(wire, [query(since="0", content="yes")])
    assert len(wire.value()) < 6_000
    while not wire.heard.endswith(b"answer>\n"):
        wire.read()
        world.settle(wire)
        assert len(wire.value()) < 6_000
    assert len(understand(wire.heard).rows) == 200


def test_who_stops_reading_is_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 10)
    world.cache.fill(1000)
    wire = world.connect(room=10_000)
    world.say(wire, [query()])
    world.clock.advance(world.settings.idle_timeout - 1)
    wire.read()
    world.settle(wire)
    world.clock.advance(world.settings.idle_timeout - 1)
    assert not wire.gone, "it has read something"
    world.clock.advance(2)
    assert wire.gone and not world.users.sessions


@pytest.mark.parametrize(("said", "told"), [(b"", False), (b"\n", False), (b"<lococa:query since=", True)])
def test_who_says_nothing_is_dropped(world: World, said: bytes, told: bool) -> None:
    wire = world.connect()
    world.say(wire, [said] if said else [])
    world.clock.advance(world.settings.idle_timeout + 1)
    assert wire.finished
    reasons = [understand(each).reason for each in documents(wire.heard)]
    assert reasons == (["timeout"] if told else [])


def test_who_has_asked_all_it_wants_gets_its_answers(world: World) -> None:
    fill(world)
    wire = world.connect()
    wire.protocol.dataReceived(query() + query(limit=2) + query(limit=1) + b"\n")
    wire.protocol.readConnectionLost()
    world.settle(wire)
    assert [len(understand(each).rows) for each in documents(wire.heard)] == [6, 2, 1]
    assert wire.gone


@pytest.mark.parametrize("cut", range(1, len(query(limit=1)) - 2))
def test_a_question_that_is_cut_off(world: World, cut: int) -> None:
    wire = world.connect()
    world.say(wire, [query(limit=1)[:cut]])
    wire.protocol.readConnectionLost()
    assert [understand(each).reason for each in documents(wire.heard)] == ["syntax"]
    assert wire.gone


# Troubles of the LCC.


def test_the_database_cannot_be_reached(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 10)
    world.cache.fill(100)
    wire = world.connect(room=1000)
    world.database.unavailable = True
    world.say(wire, [query()])
    world.database.unavailable = False
    world.say(wire, [query()])
    world.database.unavailable = True
    wire.read()
    world.settle(wire)
    wire.read()
    world.database.unavailable = False
    world.say(wire, [query(limit=1)])
    wire.read()
    none, part, one = (understand(each) for each in documents(wire.heard))
    assert (none.root, none.reason) == ("rejected", "try-later")
    assert (part.root, part.reason, part.end) == ("answer", "try-later", None) and 0 < len(part.rows) < 100
    assert (len(one.rows), one.end) == (1, {})


def test_changes_that_are_no_longer_known(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (told,) = world.ask(query(since="0000000000000000.7.0.0"))
    assert (told.root, told.reason) == ("rejected", "start-again")
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 10)
    world.cache.fill(100)
    wire = world.connect(room=1000)
    world.say(wire, [query(since="0")])
    world.database.now(lambda txn: txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'"))
    wire.read()
    world.settle(wire)
    wire.read()
    (part,) = [understand(each) for each in documents(wire.heard)]
    assert (part.root, part.reason, part.end) == ("answer", "start-again", None) and part.rows


# Content.


def test_content_of_every_length(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "PIECE_BYTES", 9)
    data = {f"{A}{length}": bytes(range(length)) for length in range(30)}
    for curl, each in data.items():
        world.put(curl, each)
    (told,) = world.ask(query(since="0", content="yes"))
    assert {row["curl"]: row["content"] for row in told.rows} == data
    (told,) = world.ask(query(content="yes", prefix=f"{A}29"))
    assert [row["content"] for row in told.rows] == [data[f"{A}29"]]
    (told,) = world.ask(query(content="no", limit=1))
    assert "content" not in told.rows[0]


def test_lines_are_of_bounded_length(world: World) -> None:
    world.put(A, b"x" * 1_000_000)
    wire = world.connect()
    world.say(wire, [query(content="yes")])
    assert max(map(len, wire.heard.split(b"\n"))) < 300_000
    assert understand(wire.heard).rows[0]["content"] == b"x" * 1_000_000


def replace_at_open(world: World, monkeypatch: pytest.MonkeyPatch, nth: int, change: Any) -> None:
    """Something happens when content is opened for the nth time."""
    real = world.folders.open

    def opening(*args: Any) -> Any:
        if len(world.folders.opened) == nth:
            change()
        return real(*args)

    monkeypatch.setattr(world.folders, "open", opening)


@pytest.mark.parametrize("since", [False, True])
def test_content_that_is_replaced_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch, since: bool) -> None:
    file = world.put(A, b"old")

    def replaced() -> None:
        world.put(A, b"newer")
        world.folders.folder.remove(file)

    replace_at_open(world, monkeypatch, 0, replaced)
    (told,) = world.ask(query(content="yes", **({"since": "0"} if since else {})))
    assert [(row["content"], row["change"]) for row in told.rows] == [(b"newer", "2")]


@pytest.mark.parametrize("what", ["deleted", "left the selection", "forgotten"])
@pytest.mark.parametrize("since", [False, True])
def test_content_that_goes_away_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, since: bool, what: str
) -> None:
    file = world.put(A, b"old", subtype="s: s")

    def goes() -> None:
        if what == "deleted":
            world.cache.delete(1, A)
        elif what == "forgotten":
            world.cache.clear()
        else:
            world.put(A, b"other", subtype="t: t")
        world.folders.folder.remove(file)

    replace_at_open(world, monkeypatch, 0, goes)
    (told,) = world.ask(query(content="yes", subtype="s: s", **({"since": "0"} if since else {})))
    states = [(row["curl"], row["state"], "md5" in row, "content" in row) for row in told.rows]
    assert states == ([(A, "deleted", False, False)] if since else [])
    assert told.end is not None


def test_content_that_is_missing(world: World) -> None:
    world.folders.folder.remove(world.put(f"{A}gone", b"gone"))
    world.put(f"{A}there", b"there")
    world.cache.put(1, f"{A}lost", fetched_fileid=None, md5="")
    world.cache.put(1, f"{A}length", len=3, fetched_fileid=world.folders.add(b"longer"))
    (told,) = world.ask(query(since="0", content="yes"))
    assert [row.get("missing") for row in told.rows] == ["gone", None, "gone", "unavailable"]
    assert told.rows[1]["content"] == b"there" and told.end is not None


def test_content_that_breaks_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "PIECE_BYTES", 30)
    first = world.put(f"{A}1", b"x" * 100)
    world.put(f"{A}2", b"y" * 100)
    world.put(f"{A}3", b"z" * 100)
    replace_at_open(world, monkeypatch, 2, lambda: world.folders.folder.remove(first))
    (told,) = world.ask(query(since="0", content="yes"))
    assert [row.get("missing") for row in told.rows] == ["gone", None, None]
    world.folders.opened.clear()
    replace_at_open(world, monkeypatch, 6, lambda: world.folders.away.add(1))
    (told,) = world.ask(query(since="0", content="yes"))
    assert [row.get("missing") for row in told.rows] == ["gone", "unavailable", "unavailable"]


def test_a_machine_that_is_away_is_not_asked_again_and_again(world: World) -> None:
    world.folders.away.add(2)
    for number in range(20):
        world.put(f"{A}{number}", b"data", fetched_machineid=1 + number % 2)
    (told,) = world.ask(query(since="0", content="yes"))
    assert [row.get("missing") for row in told.rows] == [None, "unavailable"] * 10
    assert [machine for machine, _, _ in world.folders.opened].count(2) == contents.MACHINE_FAILURES
    world.folders.away.clear()
    (told,) = world.ask(query(since="0", content="yes"))
    assert not any("missing" in row for row in told.rows), "another answer, another try"


def test_single_files_that_are_damaged_are_no_reason_to_give_up_their_machine(world: World) -> None:
    for number in range(20):
        world.put(f"{A}{number}", b"data")
        world.cache.put(1, f"{A}{number}/damaged", len=3, fetched_fileid=world.folders.add(b"longer"))
    (told,) = world.ask(query(since="0", content="yes"))
    assert [row.get("missing") for row in told.rows] == [None, "unavailable"] * 20


def test_no_secret_in_what_is_logged_of_a_question() -> None:
    from lcc.protocols.cu import Question

    assert "token" not in repr(Question({"token": "1-0123"}, (), "p"))
    assert re.search("Question", repr(attrs.evolve(Question({}, (), ""), prefix="x")))
