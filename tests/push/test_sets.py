"""Sets by HTTP: what a push server in memory answers, and what its UNS has taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.errors import code
from lcc.roles.push import sets
from lcc.roles.push.sets import SetQuestion
from lcc.storage.providers.passwords import generate_token, hash_password
from lcc.storage.push import requests
from lcc.storage.push.requests import SetRequest, SetRequests, request_id
from tests.support.databases import Backend, result_of
from tests.support.roles.push_sets import PREFIX, SetWorld, basic, chunk, head, pages
from tests.support.roles.uns import ROOT

OUTSIDE = "http://elsewhere.example/x"
CHUNKED = "Transfer-Encoding: chunked"


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[..., SetWorld]]:
    """Worlds on SQLite: the database only has to do with keys of requests."""
    yield from _worlds(Backend("sqlite", "sqlite:lcc.db", tmp_path / "home"), tmp_path)


@pytest.fixture
def on_both(backend: Backend, tmp_path: Path) -> Iterator[Callable[..., SetWorld]]:
    yield from _worlds(backend, tmp_path)


def _worlds(backend: Backend, tmp_path: Path) -> Iterator[Callable[..., SetWorld]]:
    backend.home.mkdir(exist_ok=True)
    made: list[SetWorld] = []

    def make(**settings: Any) -> SetWorld:
        made.append(SetWorld(tmp_path, backend, **settings))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(worlds: Callable[..., SetWorld]) -> SetWorld:
    return worlds()


def test_a_set_by_http(world: SetWorld) -> None:
    answer = world.post(pages("a", "b") + b'{"c": "c", "mimetype": "text/html", "len": 5, "md5": null}\n')
    assert (answer.status, answer.lines) == (200, [{"accepted": True, "received": 3, "refused": 0}])
    assert world.told == [["a", "b", "c"]]
    [taken] = world.taken
    assert taken.notices[2].length == 5 and taken.begin.pid == 7 and not taken.begin.full


def test_what_is_refused_comes_before_the_verdict(world: SetWorld) -> None:
    answer = world.post(pages("a", OUTSIDE))
    fault, verdict = answer.lines
    assert (answer.status, verdict) == (200, {"accepted": True, "received": 1, "refused": 1})
    assert fault == {
        "url": OUTSIDE,
        "code": code("outside-roots"),
        "error": fault["error"],
        "element": {"c": OUTSIDE, "m": "text/html"},
    }


def test_many_sets_over_one_connection_log_in_once(world: SetWorld) -> None:
    line = world.open()
    for name in "abc":
        body = pages(name)
        line.say([head(PREFIX, basic(), f"Content-Length: {len(body)}") + body])
    assert line.heard.count(b'"accepted":true') == 3
    assert world.told == [["a"], ["b"], ["c"]] and world.uns.uns.counters.logins_accepted == 1
    orders = [taken.begin.connseq for taken in world.taken]
    assert orders == sorted(orders)


def test_the_uns_answers_a_set_that_is_there_as_a_whole_in_one_piece(world: SetWorld) -> None:
    world.silence_qm()
    line = world.open()
    body = pages("a")
    line.say([head(PREFIX, basic(), f"Content-Length: {len(body)}"), body])
    [wire] = world.wires
    heard: list[bytes] = []
    deliver = wire.client.stream.dataReceived
    wire.client.stream.dataReceived = lambda data: (heard.append(data), deliver(data))[1]  # type: ignore[method-assign]
    world.let_qm_answer()
    [reply] = heard
    assert reply.startswith(b"<lococa:set_result order=") and b"set_accepted" in reply
    assert world.answer(line).verdict["received"] == 1
    # What comes in pieces hears of its order number at once.
    world.silence_qm()
    line.say([head(PREFIX, basic(), CHUNKED), chunk(pages("b"))])
    assert heard[1].startswith(b"<lococa:set_result order=") and b"set_accepted" not in heard[1]


def test_errors_come_while_the_body_still_arrives(world: SetWorld) -> None:
    line = world.open()
    line.say([head(PREFIX, basic(), CHUNKED), chunk(pages("a", OUTSIDE) + b'{"c": "h'), b""])
    answer = world.answer(line)
    assert answer.status == 200 and not answer.complete
    assert [each["code"] for each in answer.lines] == [code("outside-roots")]
    line.say([chunk(b'alf", "m": "text/html"}'), chunk(b"")])
    answer = world.answer(line)
    assert answer.complete and answer.verdict == {"accepted": True, "received": 2, "refused": 1}
    assert world.told == [["a", "half"]]
    # The connection is good for more.
    body = pages("next")
    line.say([head(PREFIX, basic(), f"Content-Length: {len(body)}") + body])
    assert world.told[-1] == ["next"]


def test_url_elements(world: SetWorld) -> None:
    body = b'<?lcc-stream version="1"?>\n<url c="a&amp;b" m="text/html"/><o/>\n<url c="c" m="text/html">\n</url>'
    assert world.post(body).verdict["received"] == 2
    assert world.told == [["a&b", "c"]]
    for body, words in ((b"<url c='a' m='text/html'/></set><url/>", "</set>"), (b"<url c='a'", "well-formed")):
        answer = world.post(body)
        assert answer.status == 400 and not answer.verdict["accepted"] and words in answer.verdict["error"]
    assert len(world.told) == 1


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"[]\n", 400, "line 1: each line must be an object"),
        (pages("a") + b"\n{broken\n", 400, "line 3: "),
        (pages("a") + b'{"c": "\xff"}\n', 400, "line 2 is not UTF-8"),
        (b'{"c": "\\u0001", "m": "text/html"}', 400, "U+0001"),
        (b'{"c": 1.5}', 400, "whole number"),
        (b'{"c": true}', 400, "whole number"),
        (b'{"c": ' + b"9" * 5000 + b"}", 400, "line 1"),
        (b'{"c d": "x"}', 400, "no name of an attribute"),
        (b"[" * 60_000, 400, "nested too deep"),
    ],
)
def test_a_body_that_cannot_be_read_refuses_the_set(world: SetWorld, body: bytes, status: int, words: str) -> None:
    for how in ("short", "long"):
        if how == "short":
            answer = world.post(body)
        else:
            line = world.open()
            line.say([head(PREFIX, basic(), CHUNKED), chunk(body), chunk(b"")])
            answer = world.answer(line)
        assert answer.status == status and words in answer.verdict["error"], how
    assert world.told == [] and world.uns.incoming_files() == []


def test_a_line_of_a_megabyte_is_not_kept(world: SetWorld) -> None:
    line = world.open()
    line.say([head(PREFIX, basic(), CHUNKED)])
    for _ in range(16):
        line.say([chunk(b'{"c": "' + b"x" * 65_536)])
    assert world.answer(line).status == 413
    assert world.told == []


def test_who_is_not_let_in(world: SetWorld) -> None:
    for headers in (["X: y"], ["Authorization: Basic !!"], ["Authorization: Bearer abc"], [basic(password="wrong")]):
        answer = world.post(pages("a"), PREFIX, *headers)
        assert answer.status == 401 and "WWW-Authenticate" in answer.headers, headers
    assert world.post(pages("a"), PREFIX, basic(99)).status == 401
    assert world.told == []
    # A long body is not asked for.
    line = world.open()
    line.say([head(PREFIX, basic(password="wrong"), CHUNKED, "Expect: 100-continue")])
    assert world.answer(line).status == 401 and b"100 Continue" not in line.heard
    world.pass_time(11)
    assert line.gone


def test_wrong_passwords_count_against_the_clients_address(world: SetWorld) -> None:
    for _ in range(world.uns.settings.failed_logins):
        assert world.post(pages("a"), PREFIX, basic(8, "wrong"), peer="192.0.2.66").status == 401
    assert world.post(pages("a"), PREFIX, basic(8), peer="192.0.2.66").status == 429
    assert world.post(pages("a"), PREFIX, basic(7), peer="192.0.2.1").status == 200
    assert world.uns.database.sessions[7].last_ip == "192.0.2.1"


def test_a_token_is_its_providers(world: SetWorld) -> None:
    token, other = generate_token(7), generate_token(8)
    providers = world.uns.database.providers
    providers[7] = attrs.evolve(providers[7], token_hash=hash_password(token, generated=True))
    providers[8] = attrs.evolve(providers[8], token_hash=hash_password(other, generated=True))
    assert world.post(pages("a"), PREFIX, f"Authorization: Bearer {token}").status == 200
    assert world.taken[-1].begin.pid == 7
    # Nobody is another provider by it.
    secret = token.rpartition("_")[2]
    assert world.post(pages("a"), PREFIX, f"Authorization: Bearer lcc_8_{secret}").status == 401
    assert world.post(pages("a"), PREFIX, basic(8, token)).status == 401
    providers[7] = attrs.evolve(providers[7], token_hash="")
    world.pass_time(80)
    assert world.post(pages("a"), PREFIX, f"Authorization: Bearer {token}").status == 401


def test_a_password_that_was_changed_ends_after_a_minute(world: SetWorld) -> None:
    providers = world.uns.database.providers
    began = world.clock.seconds()
    for _ in range(10):
        held = world.clock.seconds() - began <= 60
        assert world.post(pages("a")).status == (200 if held else 401)
        providers[7] = attrs.evolve(providers[7], password_hash=hash_password("another", generated=True))
        world.pass_time(7)
    assert not held


def test_the_head_says_what_is_wrong(world: SetWorld) -> None:
    for query, words in (
        ("kind=all", "partial or full"),
        ("deletions=1", "yes or no"),
        ("set=full", "unknown: set"),
        ("errors_upto=x", "errors_upto"),
        ("kind=%ff", "UTF-8"),
    ):
        answer = world.post(pages("a"), query)
        assert answer.status == 400 and words in answer.verdict["error"], query
    assert world.post(pages("a"), PREFIX, basic(), "Content-Encoding: gzip").status == 415
    assert world.post(pages("a"), PREFIX, basic(), "Idempotency-Key: " + "k" * 201).status == 400
    assert world.post(pages("a"), "urlprefix=nonsense").status == 422
    line = world.open()
    line.say([head("", basic(), method="HEAD")])
    assert line.heard.startswith(b"HTTP/1.1 405") and line.heard.endswith(b"\r\n\r\n")


def test_full_sets(world: SetWorld) -> None:
    answer = world.post(b"", f"kind=full&{PREFIX}")
    assert answer.status == 422 and "deletions=yes" in answer.verdict["error"]
    line = world.open()
    line.say([head(f"kind=full&{PREFIX}", basic(), CHUNKED), chunk(b"\n"), chunk(b"")])
    assert world.answer(line).status == 422
    assert world.post(b"", f"kind=full&deletions=yes&{PREFIX}").status == 200
    assert world.post(pages("a"), f"kind=full&{PREFIX}").status == 200
    assert [(taken.begin.full, taken.begin.deletions) for taken in world.taken] == [(True, True), (True, False)]
    assert world.post(pages(OUTSIDE), f"kind=full&{PREFIX}").verdict["code"] == code("names-nothing")


def test_status_says_what_a_greeting_says(world: SetWorld) -> None:
    line = world.open()
    line.say([head("", basic(), method="GET", path="/status")])
    answer = world.answer(line)
    assert answer.status == 200 and answer.verdict["mimetypes"] == ["text/*"]
    assert answer.verdict["files"] == {"used": 0, "free": None} and answer.verdict["errors"]["count"] == 0
    world.post(pages("a"), f"errors_upto=17&{PREFIX}")
    assert [taken.begin.errors_upto for taken in world.taken] == [17]
    world.post(pages("a"))
    assert world.taken[-1].begin.errors_upto == 0


def test_a_repeated_request_is_one_set(on_both: Callable[..., SetWorld]) -> None:
    world = on_both()
    key = "Idempotency-Key: 1"
    first = world.post(pages("a", OUTSIDE), PREFIX, basic(), key)
    again = world.post(pages("a", OUTSIDE), PREFIX, basic(), key)
    assert again.lines == first.lines and "Idempotent-Replayed: true" in again.headers
    assert world.told == [["a"]]
    # A kill does not matter; and nor does how it comes.
    world.restart()
    line = world.open()
    line.say([head(PREFIX, basic(), key, CHUNKED), chunk(pages("a", OUTSIDE)), chunk(b"")])
    assert world.answer(line).lines == first.lines and world.told == [["a"]]
    assert world.post(pages("a"), "", basic(), key).status == 422
    assert world.post(pages("other"), PREFIX, basic(8), key).status == 200  # keys are the provider's own
    assert world.post(pages("b"), PREFIX, basic(), "Idempotency-Key: 2").status == 200
    world.pass_time(1)
    assert world.told == [["a"], ["other"], ["b"]]


def test_a_request_without_an_answer_is_repeated_with_its_order_number(on_both: Callable[..., SetWorld]) -> None:
    world = on_both()
    key = "Idempotency-Key: 1"
    world.silence_qm()
    line = world.open()
    line.say([head(PREFIX, basic(), key, f"Content-Length: {len(pages('a'))}"), pages("a")])
    assert line.heard == b""  # the UNS waits for the queue manager
    assert world.post(pages("a"), PREFIX, basic(), key).status == 409
    world.restart()
    world.let_qm_answer()
    assert world.post(pages("a", "newer")).status == 200
    assert world.post(pages("a"), PREFIX, basic(), key).verdict["accepted"]
    first, newer, again = [taken.begin.connseq for taken in world.taken]
    assert first == again < newer
    assert world.post(pages("a"), PREFIX, basic(), key).verdict["accepted"] and len(world.taken) == 3


def test_a_database_that_was_put_back_does_not_know_the_order_number(world: SetWorld) -> None:
    noted = SetRequest(request_id(7, "1"), 7, SetQuestion(urlprefix=ROOT).digest, order=10**9, time=int(world.now()))
    result_of(SetRequests(world.server.store).save(noted))
    key = "Idempotency-Key: 1"
    assert world.post(pages("a"), PREFIX, basic(), key).status == 503
    assert world.post(pages("a"), PREFIX, basic(), key).status == 200 and world.told == [["a"]]


def test_a_full_set_without_an_answer_is_not_told_again(world: SetWorld) -> None:
    world.silence_qm()
    query, key = f"kind=full&{PREFIX}", "Idempotency-Key: 1"
    line = world.open()
    line.say([head(query, basic(), key, f"Content-Length: {len(pages('a'))}"), pages("a")])
    world.restart()
    world.let_qm_answer()
    answer = world.post(pages("a"), query, basic(), key)
    assert answer.status == 409 and "/status" in answer.verdict["error"] and len(world.taken) == 1


def test_a_refused_request_may_be_repeated(world: SetWorld) -> None:
    key = "Idempotency-Key: 1"
    world.uns.uns.pause()
    assert world.post(pages("a"), PREFIX, basic(), key).status == 503
    world.uns.uns.resume()
    assert world.post(pages("a"), PREFIX, basic(), key).status == 200 and world.told == [["a"]]


def test_keys_are_bounded_and_expire(on_both: Callable[..., SetWorld]) -> None:
    world = on_both(request_keys_max=2, request_keys_keep=60)
    codes = [world.post(pages("a"), PREFIX, basic(), f"Idempotency-Key: {number}").status for number in range(3)]
    assert codes == [200, 200, 429]
    world.pass_time(700)
    assert world.tables.query("SELECT COUNT(*) FROM setrequest") == [(0,)]


def test_keys_are_forgotten_as_fast_as_they_come(
    worlds: Callable[..., SetWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (requests, sets):
        monkeypatch.setattr(module, "PURGED_AT_ONCE", 2)
    world = worlds(request_keys_keep=60)
    for number in range(7):
        world.post(pages("a"), PREFIX, basic(), f"Idempotency-Key: {number}")
    world.pass_time(610)
    assert world.tables.query("SELECT COUNT(*) FROM setrequest") == [(0,)], "not some in ten minutes"


def test_a_body_that_stalls(worlds: Callable[..., SetWorld]) -> None:
    world = worlds(idle_timeout=20.0)
    line = world.open()
    line.say([head(PREFIX, basic(), CHUNKED), chunk(pages("a"))])
    world.pass_time(15)
    line.say([chunk(pages("b"))])
    world.pass_time(15)
    assert line.heard == b""
    world.pass_time(10)
    assert world.answer(line).status == 408
    assert world.told == [] and world.uns.incoming_files() == [] and world.sets.gateway.sets_now == 0


def test_a_client_that_disconnects_leaves_nothing(world: SetWorld) -> None:
    line = world.open()
    line.say([head(PREFIX, basic(), CHUNKED), chunk(pages("a"))])
    line.half_close()
    assert line.gone
    world.settle()
    assert world.told == [] and world.uns.incoming_files() == [] and world.sets.gateway.sets_now == 0


def test_a_client_that_has_sent_all_may_half_close(world: SetWorld) -> None:
    world.silence_qm()
    for how in (f"Content-Length: {len(pages('a'))}", CHUNKED):
        line = world.open()
        line.say([head(PREFIX, basic(), how), *([pages("a")] if how != CHUNKED else [chunk(pages("a")), chunk(b"")])])
        line.half_close()
        assert not line.gone
    world.let_qm_answer()
    for line in world.lines:
        line.turn()
        assert world.answer(line).status == 200 and line.gone


def test_expect_is_answered_when_the_set_has_begun(world: SetWorld) -> None:
    line = world.open()
    line.say([head(PREFIX, basic(), CHUNKED, "Expect: 100-continue")])
    assert line.heard == b"HTTP/1.1 100 Continue\r\n\r\n"
    line.say([chunk(pages("a")), chunk(b"")])
    assert world.answer(line).verdict["accepted"]


def test_who_sends_everything_before_it_reads(world: SetWorld) -> None:
    line = world.open(room=1000)
    line.say([head(PREFIX, basic(), CHUNKED)])
    for _ in range(12):
        assert line.say([chunk(pages(*[OUTSIDE] * 100))])
    line.say([chunk(pages("a")), chunk(b"")])
    assert line.unread_max < 100_000
    line.read()
    assert line.heard.endswith(b'{"accepted":true,"received":1,"refused":1200}\n\r\n0\r\n\r\n')


def test_who_never_reads_is_dropped(worlds: Callable[..., SetWorld]) -> None:
    world = worlds(idle_timeout=20.0)
    line = world.open(room=1000)
    line.say([head(PREFIX, basic(), CHUNKED), *[chunk(pages(*[OUTSIDE] * 100))] * 3, chunk(b"")])
    world.pass_time(60)
    assert line.gone and world.sets.gateway.sets_now == 0


def test_the_uns_is_away(world: SetWorld) -> None:
    world.away = True
    answer = world.post(pages("a"))
    assert answer.status == 503 and "Retry-After" in answer.headers and "unreachable" in answer.verdict["error"]
    world.away = False
    world.silence_qm()
    line = world.open()
    line.say([head(PREFIX, basic(), f"Content-Length: {len(pages('a'))}"), pages("a")])
    world.wires[0].kill(world.wires[0].server)
    world.settle()
    answer = world.answer(line)
    assert answer.status == 503 and answer.verdict["accepted"] is None


def test_sets_of_one_provider_wait_for_each_other(worlds: Callable[..., SetWorld]) -> None:
    world = worlds(sets_at_once=2)
    slow = [world.open() for _ in range(2)]
    for line in slow:
        line.say([head(PREFIX, basic(), CHUNKED), chunk(pages("slow"))])
    waiting = [world.open() for _ in range(2)]
    for line in waiting:
        line.say([head(PREFIX, basic(), f"Content-Length: {len(pages('w'))}"), pages("w")])
    slow[0].say([chunk(b"")])
    assert world.answer(waiting[0]).status == 200
    assert world.post(pages("mine"), PREFIX, basic(8)).status == 200  # another provider does not
    slow[0].say([head(PREFIX, basic(), CHUNKED), chunk(pages("slow"))])
    late = world.open()
    late.say([head(PREFIX, basic(), f"Content-Length: {len(pages('w'))}"), pages("w")])
    world.pass_time(2)
    assert world.answer(late).status == 503


def test_nothing_stays_of_who_waited_in_vain(worlds: Callable[..., SetWorld]) -> None:
    world = worlds(sets_at_once=1)
    first = world.open()
    first.say([head(PREFIX, basic(), CHUNKED), chunk(pages("slow"))])
    late = world.open()
    late.say([head(PREFIX, basic(), f"Content-Length: {len(pages('w'))}"), pages("w")])
    world.pass_time(2)
    assert world.answer(late).status == 503
    [wire] = world.wires
    wire.kill(wire.server)
    world.pass_time(2)
    assert world.answer(first).status == 503 and world.sets.gateway._lanes == {}


def test_what_is_read_after_a_standstill_is_refused(world: SetWorld) -> None:
    assert world.post(pages("a")).status == 200
    world.clock.rightNow += 5.0
    answer = world.post(pages("stale"))
    assert answer.status == 503 and world.told == [["a"]]
    world.pass_time(3)
    assert world.post(pages("b")).status == 200


def test_a_paused_push_server_takes_no_sets(world: SetWorld) -> None:
    world.server.pause()
    assert world.post(pages("a")).status == 503
    world.server.resume()
    assert world.post(pages("a")).status == 200


def test_who_sends_faster_than_the_uns_takes_is_paused(world: SetWorld) -> None:
    line = world.open()
    line.say([head(PREFIX, basic(), CHUNKED), chunk(pages("a"))])
    [wire] = world.wires
    assert not line.paused
    wire.client.stream.pauseProducing()
    line.say([chunk(pages("b"))])
    assert line.paused
    wire.client.stream.resumeProducing()
    assert not line.paused
    line.say([chunk(b"")])
    assert world.answer(line).verdict["received"] == 2


def test_conversations_are_given_up_when_nobody_uses_them(world: SetWorld) -> None:
    world.post(pages("a"))
    assert world.sets.gateway.conversations == 1
    world.pass_time(30)
    assert world.sets.gateway.conversations == 0 == world.uns.uns.sessions_of(7, gateway=True)
    # Those of a port of providers do not count against them.
    assert world.uns.uns.sessions_of(7) == 0


def test_what_the_answers_are_is_documented(world: SetWorld) -> None:
    line = world.open()
    line.say([head("", method="GET", path="/openapi.json")])
    document = json.loads(world.answer(line).body)
    assert set(document["paths"]) == {"/sets", "/status"}
