"""A slice of ``make fuzz``, and that it finds what is planted."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_to_bytes

import pytest
from twisted.logger import globalLogPublisher

from lcc.numbers import parse_number
from lcc.protocols.uns_qm import FROM_UNS
from lcc.protocols.xmlfeed import XmlFeed
from lcc.roles.cu.front import tokens as front_tokens
from lcc.roles.cu.xml.session import Session
from lcc.roles.fe_uns.login import RecordingFeed
from lcc.roles.front import SiteFront
from lcc.roles.manager.conversation import WorkerConversation
from lcc.roles.manager.job import RunningJob
from lcc.roles.push import sets_web
from lcc.roles.push import web as push_web
from lcc.roles.push.gateway import Account
from lcc.roles.scheduler.managers import ManagerConnection
from lcc.transport.http import pages as web_pages
from lcc.transport.http.pages import HTML
from lcc.transport.http.replies import Explained, reply
from lcc.transport.http.server import GuardedChannel, text_header
from lcc.transport.stream import XmlStream
from tests.fuzz.campaign import Report, play_world
from tests.fuzz.mutation import BYTES_MAX, mutate, segment
from tests.fuzz.results import Results
from tests.fuzz.target import Target
from tests.fuzz.target_parser import Parser
from tests.fuzz.targets import TARGETS
from tests.fuzz.targets_front_roles import ProvidersAtFront, QuestionsAtFront, XmlAtFront
from tests.fuzz.targets_jobs import ManagersAtScheduler, OrdersAtManager, WorkerRequests
from tests.fuzz.targets_pages import MonitorPages, SearchPages
from tests.fuzz.targets_push import PushedSets, PushRequests
from tests.fuzz.targets_qm import Sets
from tests.fuzz.targets_uns import Providers
from tests.fuzz.targets_users import ContentPorts, XmlQuestions
from tests.fuzz.watching import ErrorLog
from tests.support.logs import LoggedErrors

REPOSITORY = Path(__file__).parents[2]
STREAMS = 4000


def fuzz(folder: Path, *options: str) -> tuple[int, str]:
    """Run it; its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", "--results", str(folder), "--processes", "1", *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_slice_without_a_fault_and_runs_that_add_up(tmp_path: Path) -> None:
    code, text = fuzz(tmp_path, "--streams", str(STREAMS // 2), "--no-samples")
    assert code == 0, text
    code, text = fuzz(tmp_path, "--streams", str(STREAMS), "--no-samples")
    assert code == 0, text
    totals = json.loads((tmp_path / "results.json").read_text())["totals"]
    assert totals.keys() == {kind.name for kind in TARGETS}
    assert all(total["streams"] == total["next"] > 0 and not total["faults"] for total in totals.values())
    assert STREAMS <= sum(total["streams"] for total in totals.values()) < 2 * STREAMS


def test_a_folder_of_another_seed_is_refused(tmp_path: Path) -> None:
    Results(tmp_path, "lcc").save()
    code, text = fuzz(tmp_path, "--seed", "second")
    assert code == 2 and "Traceback" not in text
    assert "has streams of seed 'lcc', not 'second'; name another folder with --results" in text


def play(kind: type[Target], home: Path, streams: int, sample: bool = False) -> Report:
    home.mkdir(exist_ok=True)
    errors = ErrorLog()
    globalLogPublisher.addObserver(errors)
    try:
        return play_world(kind, home, "planted", 0, streams, errors, sample)
    finally:
        globalLogPublisher.removeObserver(errors)


def test_the_same_number_makes_the_same_stream(tmp_path: Path) -> None:
    for kind in TARGETS:
        seeds = kind.seeds()
        made = [[mutate(random, seeds, kind.tokens) for _ in range(50)] for random in (Random("a"), Random("a"))]
        assert made[0] == made[1]
        for data in made[0]:
            pieces = segment(Random("b"), data)
            assert b"".join(pieces) == data and len(data) <= BYTES_MAX and all(pieces)
    one, other = (play(Providers, tmp_path / name, 40) for name in "ab")
    assert one.digest == other.digest and not one.faults


def _fail_on_comments(feed: XmlFeed, data: bytes, receive: Any = XmlFeed.receive) -> Any:
    if b"<!--" in data:
        raise KeyError("planted")
    return receive(feed, data)


def _forget_to_hold(feed: XmlFeed) -> None:
    """In place of the check of what is held."""


def _trust_numbers(tag: str, attributes: dict[str, str]) -> Any:
    return FROM_UNS._kinds[tag](
        **{key: int(value) if value.isdigit() else value for key, value in attributes.items()}
    )


def _keep_timer(stream: XmlStream, reason: Any, lost: Any = XmlStream.connectionLost) -> None:
    call, stream._idle_call = stream._idle_call, None
    lost(stream, reason)
    stream._idle_call = call


def _keep_session(session: Session, reason: Any) -> None:
    """The session is never forgotten."""
    session._closed = True


def _hear_late(channel: GuardedChannel, data: bytes, received: Any = GuardedChannel.dataReceived) -> None:
    channel._leaving = False
    received(channel, data)


def _greedy(feed: XmlFeed, data: bytes, receive: Any = XmlFeed.receive) -> Any:
    vars(feed).setdefault("hoard", []).append(bytes(30_000_000))
    return receive(feed, data)


def _not_lost(connection: ManagerConnection, reason: Any) -> None:
    """It still seems to be there."""


def _run_on(job: RunningJob, told: Any, *, at_once: bool = False) -> None:
    """It is not ended."""


def _keep_descriptor(conversation: WorkerConversation, reason: Any) -> None:
    """Nobody hears that it is closed."""


def _fail_on_queries(request: Any) -> dict[str, list[str]]:
    return parse_qs(request.uri.partition(b"?")[2].decode("ascii"), errors="strict")


def _fail_on_logins(request: Any, address: str) -> Account:
    _, _, given = (text_header(request, "authorization") or "").partition(" ")
    ident, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    return Account(parse_number(ident, 1 << 31), password, address)


def _mend_lines(feed: RecordingFeed, data: bytes, receive: Any = RecordingFeed.receive) -> Any:
    events = receive(feed, data)
    feed.heard = bytearray(feed.heard.replace(b"\n", b""))
    return events


def _show_all(front: Any, request: Any, explained: Explained) -> None:
    """The address is in the page, as it was sent."""
    reply(request, explained[0], HTML, unquote_to_bytes(request.uri), {})


def _trust_queries(text: str, fault: str) -> dict[str, str]:
    return dict(parse_qsl(text, errors="strict", strict_parsing=True)) if text else {}


STREAMS_OF: dict[type[Target], int] = {
    Parser: 3000,
    ManagersAtScheduler: 8,
    OrdersAtManager: 8,
    WorkerRequests: 8,
    PushRequests: 32,
    PushedSets: 32,
    ProvidersAtFront: 60,
    QuestionsAtFront: 60,
    XmlAtFront: 8,
    SearchPages: 120,
    MonitorPages: 60,
}
"""In which what is planted is found."""


@pytest.mark.parametrize(
    ("kind", "where", "name", "planted", "found"),
    [
        (Providers, XmlFeed, "receive", _fail_on_comments, "an exception reached the transport"),
        (Parser, XmlFeed, "_check_held", _forget_to_hold, "bytes are held"),
        (Sets, FROM_UNS, "read", _trust_numbers, "logged"),
        (XmlQuestions, XmlStream, "connectionLost", _keep_timer, "timers are left"),
        (XmlQuestions, Session, "stream_closed", _keep_session, "an honest peer is not served"),
        (ContentPorts, GuardedChannel, "dataReceived", _hear_late, "an exception reached the transport"),
        (ManagersAtScheduler, ManagerConnection, "peer_lost", _not_lost, "an honest peer is not served"),
        (OrdersAtManager, RunningJob, "end", _run_on, "jobs do not end"),
        (WorkerRequests, WorkerConversation, "stream_closed", _keep_descriptor, "its descriptor is not closed"),
        (PushRequests, push_web, "query_fields", _fail_on_queries, "logged"),
        (PushedSets, sets_web, "account_of", _fail_on_logins, "logged"),
        (ProvidersAtFront, RecordingFeed, "receive", _mend_lines, "the UNS hears"),
        (QuestionsAtFront, front_tokens, "TokenError", LookupError, "logged"),
        (XmlAtFront, Session, "stream_closed", _keep_session, "an honest peer is not served"),
        (SearchPages, SiteFront, "show", _show_all, "markup came out"),
        (MonitorPages, web_pages, "_fields", _trust_queries, "logged"),
    ],
)
def test_what_is_planted_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged_errors: LoggedErrors,
    kind: type[Target],
    where: Any,
    name: str,
    planted: Callable[..., Any],
    found: str,
) -> None:
    monkeypatch.setattr(where, name, planted)
    report = play(kind, tmp_path, STREAMS_OF.get(kind, 600))
    logged_errors.flush()
    assert any(found in fault.what for fault in report.faults), {fault.what[:200] for fault in report.faults}


def test_greed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(XmlFeed, "receive", _greedy)
    report = play(Parser, tmp_path, 3, sample=True)
    assert any("were held at once" in fault.what for fault in report.faults)


def test_needless_reading_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the bound on what expat reads again."""
    monkeypatch.setattr("lcc.protocols.xmlfeed._READ_AGAIN_PER_BYTE", 1 << 40)

    class Ends(Parser):
        """A token full of ends, byte by byte."""

        @classmethod
        def seeds(cls) -> list[bytes]:
            return [b"<a><!--" + b">" * 12_000]

        def play(self, random: Random, pieces: Any) -> None:
            super().play(random, [bytes([byte]) for byte in b"".join(pieces)])

    report = play(Ends, tmp_path, 3, sample=True)
    assert any("expat read" in fault.what for fault in report.faults)


def test_a_fault_can_be_played_again(tmp_path: Path) -> None:
    """A file as it is kept of a fault: its world is clean by now."""
    told = {"target": Providers.name, "number": 103, "seed": "lcc", "what": "", "data": b"<a>".hex()}
    (tmp_path / "fault.json").write_text(json.dumps(told))
    code, text = fuzz(tmp_path, "--replay", str(tmp_path / "fault.json"))
    assert code == 0 and "0 faults" in text
