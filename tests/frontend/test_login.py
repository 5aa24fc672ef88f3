"""From a provider's ``<init>`` to the UNS of its sub-LCC; and what it is told if there is none."""

from __future__ import annotations

import re

import pytest
from twisted.internet.error import ConnectionLost

from lcc.model.frontend.places import AtHome, SubState
from lcc.protocols.cp_uns_client import init
from tests.frontend.kit import sublcc
from tests.support.logs import LoggedErrors
from tests.support.roles.front import Client, Proxy

HEADER = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 9000\r\n"
SET = '<lococa:set set="partial" urlprefix="http://site.example/"><url c="a" m="text/html"/></lococa:set>'


def codes(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'<reason code="(\d+)"', text)]


@pytest.mark.parametrize("piece", [1, 2, 7, 50, 1 << 20])
def test_init_finds_its_sub_lcc_however_it_is_cut(piece: int) -> None:
    proxy = Proxy()
    client = proxy.connect()
    hello = f'<?xml version="1.0"?>\n<!-- hello -->{init(107, "secret")}'
    client.send(hello, piece)
    (server,) = proxy.servers
    assert server.sub.name == "b"
    assert server.heard == HEADER + hello.encode()
    server.say(b"<lococa:init_accepted>")
    client.send(SET, piece)
    assert server.heard == HEADER + hello.encode() + SET.encode()
    assert proxy.answer(client) == "<lococa:init_accepted>"


def test_what_follows_in_the_same_piece_is_said_again_too() -> None:
    proxy = Proxy()
    client = proxy.connect()
    client.send(init(7, "secret") + SET)
    assert proxy.servers[0].heard == HEADER + (init(7, "secret") + SET).encode()


def test_what_comes_while_it_connects_is_not_lost() -> None:
    """A transport may deliver once more after it was paused."""
    proxy = Proxy()
    proxy.connecting = []
    client = proxy.connect()
    client.send(init(7, "secret"))
    client.send(SET)
    client.half_close()
    assert client.transport.paused
    proxy.connecting[0].callback(None)
    (server,) = proxy.servers
    assert server.heard == HEADER + (init(7, "secret") + SET).encode()
    assert server.transport.write_closed and not client.closed
    server.say(b"the answer")
    assert proxy.answer(client) == "the answer"
    server.end.readConnectionLost()
    assert client.closed and server.transport.closed and not proxy.uns.connections


def test_a_sub_lcc_may_not_want_the_address() -> None:
    proxy = Proxy()
    proxy.sublccs = [sublcc(1, proxy_protocol=False)]
    proxy.clock.advance(1)
    proxy.connect().send(init(7, "secret"))
    assert proxy.servers[0].heard == init(7, "secret").encode()


def test_pmdb_wins_over_the_range() -> None:
    proxy = Proxy()
    proxy.place(7, 2)
    proxy.connect().send(init(7, "secret"))
    assert proxy.servers[0].sub.name == "b"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("<lococa:init xmlns:lococa='http://www.lococa.org/1.0'>" + " " * 70_000, 1003),
        ("<hello/>", 1002),
        ("\x01", 1001),
        (SET, 1001),
        ('<init xmlns="http://www.lococa.org/1.0"><provider id="7"/></init>', 1002),
        ("<!DOCTYPE init><init/>", 1004),
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_nonsense_is_answered_as_a_uns_does(said: str, code: int, piece: int) -> None:
    if piece == 1 and len(said) > 1000:
        piece = 997
    proxy = Proxy()
    client = proxy.connect()
    for i in range(0, len(said), piece):
        if not client.closed:
            client.send(said[i : i + piece])
    if said == "\x01":
        client.half_close()
        code = 1015
    assert codes(proxy.answer(client)) == [code] and client.closed and not proxy.servers


@pytest.mark.parametrize("pid", ["0", "201", "99999999999999999999", "seven", ""])
def test_an_id_of_no_sub_lcc_is_an_unknown_provider(pid: str) -> None:
    proxy = Proxy()
    client = proxy.connect()
    client.send(init(7, "secret").replace('"7"', f'"{pid}"'))
    assert proxy.answer(client, 0.4) == ""  # a UNS takes as long for it
    assert codes(proxy.answer(client, 0.2)) == [1010]


def test_who_tries_many_ids_is_throttled() -> None:
    proxy = Proxy(failed_logins=3)
    for number in range(3):
        client = proxy.connect()
        client.send(init(900 + number, "secret"))
        assert codes(proxy.answer(client, 0.6)) == [1010]
        client.lose()
    client = proxy.connect()
    client.send(init(7, "secret"))
    assert codes(proxy.answer(client)) == [1011]
    elsewhere = proxy.connect("198.51.100.1")
    elsewhere.send(init(7, "secret"))
    assert proxy.servers


@pytest.mark.parametrize("state", [AtHome.FROZEN, AtHome.MAKING])
def test_a_moving_provider_waits_and_goes_where_it_is_then(state: AtHome) -> None:
    proxy = Proxy()
    proxy.place(7, 1, state)
    client = proxy.connect()
    client.send(init(7, "secret"))
    assert proxy.answer(client, 5) == "" and not proxy.servers
    proxy.place(7, 2)
    proxy.answer(client, 0.5)
    assert [server.sub.name for server in proxy.servers] == ["b"]
    assert proxy.uns.counters.logins_held == 1


def test_a_moving_provider_does_not_wait_for_ever() -> None:
    proxy = Proxy(hold=2.0)
    proxy.place(7, 1, AtHome.FROZEN)
    client = proxy.connect()
    client.send(init(7, "secret"))
    assert proxy.answer(client, 1.5) == ""
    assert codes(proxy.answer(client, 1)) == [1012]


def _tried(proxy: Proxy) -> Client:
    client = proxy.connect()
    client.send(init(7, "secret"))
    return client


def test_a_sub_lcc_that_is_away() -> None:
    proxy = Proxy()
    proxy.unreachable.add("a")
    assert codes(proxy.answer(_tried(proxy))) == [1012]
    proxy.unreachable.clear()
    _tried(proxy)
    assert proxy.servers


def test_the_front_ends_database_is_away() -> None:
    proxy = Proxy()
    proxy.away = True
    assert codes(proxy.answer(_tried(proxy))) == [1012]
    proxy.away = False
    _tried(proxy)
    assert proxy.servers


def test_the_front_ends_database_was_away_from_the_beginning() -> None:
    proxy = Proxy()
    proxy.uns.sublccs = None
    assert codes(proxy.answer(_tried(proxy))) == [1012]
    proxy.clock.advance(1)
    _tried(proxy)
    assert proxy.servers


def test_a_row_of_pmdb_that_is_newer_than_the_map() -> None:
    proxy = Proxy()
    proxy.place(7, 3)
    assert codes(proxy.answer(_tried(proxy))) == [1012]
    proxy.sublccs.append(sublcc(3))
    proxy.clock.advance(1)
    _tried(proxy)
    assert proxy.servers[0].sub.name == "c"


def test_a_removed_sub_lcc_has_no_providers() -> None:
    proxy = Proxy()
    proxy.sublccs[0] = sublcc(1, state=SubState.REMOVED)
    proxy.clock.advance(1)
    assert codes(proxy.answer(_tried(proxy), 0.6)) == [1010]


def test_who_says_nothing_is_cut_off() -> None:
    proxy = Proxy(login_timeout=5.0)
    client = proxy.connect()
    client.send("<lococa:init")
    assert codes(proxy.answer(client, 6)) == [1005]


def test_too_many_connections_and_paused() -> None:
    proxy = Proxy(connections_per_address=1)
    first = _tried(proxy)
    assert codes(proxy.answer(_tried(proxy))) == [1014]
    first.lose()
    assert proxy.servers[0].transport.closed
    proxy.uns.pause()
    paused = _tried(proxy)
    assert codes(proxy.answer(paused)) == [1012]
    paused.lose()
    proxy.uns.resume()
    _tried(proxy)
    assert len(proxy.servers) == 2
    assert proxy.uns.counters.connections_refused == 2


def test_a_client_that_goes_while_its_sub_lcc_is_looked_for() -> None:
    proxy = Proxy()
    proxy.connecting = []
    client = _tried(proxy)
    client.lose()
    assert not proxy.uns.connections and not proxy.servers


def test_the_end_tells_who_has_not_got_through() -> None:
    proxy = Proxy(stop_timeout=3.0)
    passing = _tried(proxy)
    waiting = proxy.connect()
    ended = []
    proxy.uns.stop().addCallback(ended.append)
    assert codes(proxy.answer(waiting)) == [1012]
    waiting.lose()
    assert not passing.closed and not ended
    proxy.clock.advance(3)
    assert passing.closed and ended and not proxy.uns.connections


def test_what_stands_still_is_cut() -> None:
    """A peer that never reads, or is gone without a word: twisted#11168."""
    proxy = Proxy(idle_timeout=30.0)
    client = _tried(proxy)
    for _ in range(12):
        proxy.clock.advance(5)
        client.send("<!-- here -->")
    assert not client.closed
    for _ in range(8):
        proxy.clock.advance(5)
    assert client.closed and proxy.servers[0].transport.closed and not proxy.uns.connections


def test_a_fault_in_the_program_drops_the_connection(logged_errors: LoggedErrors) -> None:
    proxy = Proxy()
    proxy.uns.connect = None  # type: ignore[assignment]
    client = _tried(proxy)
    assert client.closed and not proxy.uns.connections
    assert len(logged_errors.flush()) == 1


def _asked(proxy: Proxy, pid: int = 7) -> Client:
    """A provider that has said who it is, while PMDB is asked."""
    proxy.asking = []
    client = proxy.connect()
    client.send(init(pid, "secret"))
    return client


def _answer(proxy: Proxy) -> None:
    asking, proxy.asking = proxy.asking, None
    assert asking is not None
    asking[0].callback(None)


def test_it_connects_while_pmdb_is_asked() -> None:
    proxy = Proxy()
    client = _asked(proxy)
    (server,) = proxy.servers
    assert server.heard == b"" and not server.transport.closed
    _answer(proxy)
    assert proxy.servers == [server] and server.heard == HEADER + init(7, "secret").encode()
    server.say(b"the answer")
    assert proxy.answer(client) == "the answer"


def test_a_connection_to_where_it_is_not_is_cut_and_hears_nothing() -> None:
    proxy = Proxy()
    proxy.place(7, 2)
    for guessed in ("a", "b"):  # the second time it is known better
        proxy.servers.clear()
        client = _asked(proxy)
        (wrong,) = proxy.servers
        assert wrong.sub.name == guessed
        _answer(proxy)
        right = proxy.servers[-1]
        assert right.sub.name == "b" and right.heard == HEADER + init(7, "secret").encode()
        if guessed == "a":
            assert wrong.heard == b"" and wrong.transport.closed
        right.say(b"the answer")
        assert proxy.answer(client) == "the answer"


@pytest.mark.parametrize("when", ["connecting", "connected"])
def test_a_connection_that_is_not_needed_is_cut(when: str) -> None:
    """The provider goes; it is moving; there is no such one; the front end's database does not answer."""
    for ending in ("goes", "moves", "unknown", "away"):
        proxy = Proxy(database_timeout=2.0)
        if when == "connecting":
            proxy.connecting = []
        client = _asked(proxy)
        if ending == "goes":
            client.lose()
        elif ending == "moves":
            proxy.place(7, 1, AtHome.FROZEN)
            _answer(proxy)
        elif ending == "unknown":
            proxy.place(7, 1)
            proxy.sublccs = [sublcc(1, state=SubState.REMOVED), sublcc(2)]
            proxy.answer(client, 1.1)
            _answer(proxy)
        proxy.answer(client, 3)
        if proxy.connecting:
            proxy.connecting[0].callback(None)
        assert all(server.transport.closed and server.heard == b"" for server in proxy.servers), ending
        assert len(proxy.servers) <= 1
        proxy.asking = None


def test_a_connection_that_is_lost_while_pmdb_is_asked_is_made_again() -> None:
    proxy = Proxy()
    _asked(proxy)
    (first,) = proxy.servers
    first.transport.lose(ConnectionLost())
    _answer(proxy)
    assert [server.heard for server in proxy.servers] == [b"", HEADER + init(7, "secret").encode()]


def test_a_sub_lcc_that_is_away_while_pmdb_is_asked() -> None:
    """It matters only if the provider is there."""
    proxy = Proxy()
    proxy.unreachable.add("a")
    client = _asked(proxy)
    proxy.place(7, 2)
    _answer(proxy)
    assert proxy.servers[-1].sub.name == "b" and proxy.uns.counters.sublccs_unreachable == 0
    client = _asked(proxy, 8)
    _answer(proxy)
    assert codes(proxy.answer(client)) == [1012] and proxy.uns.counters.sublccs_unreachable == 1
