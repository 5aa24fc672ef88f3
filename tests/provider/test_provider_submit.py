"""lcccp from the end of its input to its exit code, over real connections to a scripted UNS."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import ensureDeferred

from lcc.protocols.cp_uns import UrlFault
from lcc.provider import submitter as submitter_module
from lcc.provider.client import Unreachable, submit, uns_endpoint
from lcc.provider.report import Plan, accepted_line, prefix_hints
from lcc.provider.spool import Spool, spool_stream
from lcc.provider.statefile import DELETIONS_RELEASED, StateEntry, StateFile, StateWriter
from lcc.provider.stream_format import Header, StreamFault, StreamWriter
from lcc.provider.submitter import Orders, Submitter
from tests.support.servers.uns import Script, listening


def spooled(count: int, *, statefile: Path | None = None, full: bool = False, extra: str = "x") -> Spool:
    """A complete stream with so many elements."""
    sink = io.BytesIO()
    tool = "lcccpstate" if statefile is not None else "file2url"
    writer = StreamWriter(sink, Header(tool, full, statefile, "t" if statefile else ""))
    for number in range(count):
        writer.write({"c": f"{extra}{number}.html", "m": "text/html", "len": "100"})
    writer.close(added=count)
    return spool_stream(io.BytesIO(sink.getvalue()), full, False, True)


def run(script: Script, spool: Spool | None, state: StateFile | None = None, **options: Any) -> Any:
    """One run of lcccp; a Deferred of its exit code."""
    settings = {"timeout_seconds": 30.0, "retries": 0, "show_errors": 3, "quiet": False, **options}
    orders = Orders(f"127.0.0.1:{script.port}", 1, "secret", "http://site/", **settings)
    return ensureDeferred(Submitter(orders, spool, state).run(reactor))


@pytest_twisted.inlineCallbacks
def test_accepted(capsys: pytest.CaptureFixture[str]) -> Any:
    with listening(reactor, Script()) as script, spooled(5000) as spool:
        assert (yield run(script, spool)) == 0
    begin, elements = script.sets[0]
    assert (begin.full, begin.urlprefix, len(elements)) == (False, "http://site/", 5000)
    assert elements[4999]["c"] == "x4999.html"
    assert (script.inits[0].pid, script.inits[0].password) == (1, "secret")
    said = capsys.readouterr()
    assert "accepted: a set of 5,000 URLs, all valid" in said.out
    assert said.err == ""


@pytest_twisted.inlineCallbacks
def test_url_errors(capsys: pytest.CaptureFixture[str]) -> Any:
    with listening(reactor, Script(errors=40)) as script, spooled(7, extra="bad") as spool:
        assert (yield run(script, spool)) == 1
    said = capsys.readouterr()
    assert "7 URLs were refused" in said.err
    assert "1204 http://site/bad0.html: outside\N{REPLACEMENT CHARACTER}[31m roots" in said.err
    assert "and 4 more" in said.err
    assert "40 errors of earlier fetches" in said.err
    assert "404 http://site/lost.html: Not Found" in said.err
    assert "and 39 more" in said.err
    assert said.err.count("lcccpstate --full") == 1
    # What can be done about each kind of error, once.
    assert said.err.count("lcccp: next, for 1204: compare it with your roots") == 1
    assert said.err.count("lcccp: next, for 404: if it is gone, submit its deletion") == 1
    assert "secret" not in said.err + said.out


@pytest.mark.parametrize(
    ("elements", "deletions", "full", "received", "text"),
    [
        (7, 7, False, 7, "a set of 7 URLs, 7 of them deletions, all valid"),
        (7, 1, False, 5, "a set of 7 URLs, 1 of them a deletion, 5 of them valid"),
        (1, 0, False, 1, "a set of 1 URL, valid"),
        (1, 1, False, 0, "a set of 1 URL, 1 of them a deletion, 0 of them valid"),
        (0, 0, True, 0, "a full set of 0 URLs"),
    ],
)
def test_what_was_accepted(elements: int, deletions: int, full: bool, received: int, text: str) -> None:
    assert accepted_line(Plan(elements, deletions, 0, None, full), received) == f"accepted: {text}"


def test_hints_at_the_prefix() -> None:
    no_scheme = UrlFault(1202, "not a valid URL: no scheme", "", {"c": "a.html"})
    outside = UrlFault(1204, "outside", "http://sitea.html", {"c": "a.html"})
    assert "--urlprefix http://site/" in prefix_hints([outside, no_scheme], "")[0]
    assert prefix_hints([outside], "") == []
    assert "http://site/ with a slash" in prefix_hints([outside], "http://site")[0]
    assert prefix_hints([outside], "http://site/") == []
    assert prefix_hints([outside], "http://") == []  # the names bring their hosts
    assert prefix_hints([outside], "http://[") == []


@pytest_twisted.inlineCallbacks
def test_one_error_is_no_errors(capsys: pytest.CaptureFixture[str]) -> Any:
    with listening(reactor, Script(errors=1)) as script, spooled(1) as spool:
        yield run(script, spool)
    with listening(reactor, Script(errors=1)) as script:
        yield run(script, None, quiet=True)
    said = capsys.readouterr()
    assert said.err.count("lcccp: 1 error of earlier fetches:") == 2
    assert said.err.count("hint:") == 1


@pytest.mark.parametrize(
    ("stop", "code", "text"),
    [
        ("init", 3, "1010 go <away>"),
        ("reject", 3, "1102 too large"),
        ("lost-init", 4, "before the response"),
        ("lost-set", 4, "before the response"),
        ("lost-answer", 4, "may have been accepted"),
        ("silent", 4, "no response for 0.2 seconds"),
    ],
)
@pytest_twisted.inlineCallbacks
def test_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str], stop: str, code: int, text: str) -> Any:
    state = StateFile(tmp_path / "state")
    writer = StateWriter(state.pending, "t")
    writer.close()
    timeout = 0.2 if stop == "silent" else 30.0
    count = 20_000 if stop in ("reject", "lost-set") else 5
    with listening(reactor, Script(stop=stop)) as script, spooled(count, statefile=state.path) as spool:
        assert (yield run(script, spool, state, timeout_seconds=timeout)) == code
    assert text in capsys.readouterr().err
    assert not state.path.exists()
    # Only where nobody knows, the pending state stays.
    assert state.pending.exists() == (stop == "lost-answer")


@pytest_twisted.inlineCallbacks
def test_unreachable(capsys: pytest.CaptureFixture[str]) -> Any:
    with spooled(1) as spool:
        orders = Orders("unix:/nonexistent/uns", 1, "secret", "", 30.0, 0, 3, False)
        code = yield ensureDeferred(Submitter(orders, spool, None).run(reactor))
    assert code == 4
    assert "cannot connect" in capsys.readouterr().err


@pytest.mark.parametrize("stop", ["silent", "lost-init"])
@pytest_twisted.inlineCallbacks
def test_a_signal_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stop: str) -> Any:
    """While it waits for an answer, and between two attempts."""
    triggers: list[Any] = []
    monkeypatch.setattr(reactor, "addSystemEventTrigger", lambda *arguments: triggers.append(arguments[2]))
    with listening(reactor, Script(stop=stop)) as script, spooled(3) as spool:
        orders = Orders(f"127.0.0.1:{script.port}", 1, "secret", "", 600.0, 5, 3, False)
        result = Submitter(orders, spool, None).start(reactor)
        while not (script.inits and (stop == "silent" or script.lost)):
            yield submitter_module.deferLater(reactor, 0.01)
        yield submitter_module.deferLater(reactor, 0.05)
        triggers[0]()
        assert (yield result) == 4
    assert "interrupted" in capsys.readouterr().err
    assert len(script.inits) == 1


@pytest_twisted.inlineCallbacks
def test_a_wrong_endpoint(capsys: pytest.CaptureFixture[str]) -> Any:
    orders = Orders("bogus:a:b", 1, "secret", "", 30.0, 0, 3, False)
    code = yield ensureDeferred(Submitter(orders, None, None).run(reactor))
    assert code == 2
    assert "neither HOST:PORT" in capsys.readouterr().err


@pytest_twisted.inlineCallbacks
def test_attempts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr(submitter_module, "_RETRY_SECONDS", (0.0,))
    with listening(reactor, Script(stop="init", code=1012)) as script, spooled(2) as spool:
        assert (yield run(script, spool, retries=2)) == 3
        assert len(script.inits) == 3
        script.stop = "lost-set"
        with spooled(9) as other:
            assert (yield run(script, other, retries=1)) == 4
        assert len(script.inits) == 5
        script.stop, script.code = "init", 1010
        assert (yield run(script, spool, retries=2)) == 3
        assert len(script.inits) == 6
    assert "trying again" in capsys.readouterr().out


@pytest_twisted.inlineCallbacks
def test_the_state_is_put_in_place_when_accepted(tmp_path: Path) -> Any:
    state = StateFile(tmp_path / "state")
    writer = StateWriter(state.pending, "t")
    writer.add(StateEntry("d", "a", "text/html"))
    writer.close()
    with listening(reactor, Script(wanted="old-files")) as script, spooled(3, statefile=state.path) as spool:
        assert (yield run(script, spool, state)) == 0
    assert [entry.curl for entry in state.entries()] == ["a"]
    assert not state.pending.exists()
    assert state.full_set_wanted() == "old-files"
    with listening(reactor, Script()) as script:
        assert (yield run(script, None, state)) == 0
    assert state.full_set_wanted() == ""


@pytest_twisted.inlineCallbacks
def test_nothing_to_send(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The connection alone; a set without elements only where it acknowledges errors."""
    state = StateFile(tmp_path / "state")
    StateWriter(state.pending, "t").close()
    with listening(reactor, Script()) as script, spooled(0, statefile=state.path) as spool:
        assert (yield run(script, spool, state)) == 0
        assert len(script.inits) == 1
        assert script.sets == []
        assert state.path.exists()
        script.errors = 2
        with spooled(0) as other:
            assert (yield run(script, other)) == 0
        assert len(script.sets) == script.accepted == 1
    assert "nothing has changed" in capsys.readouterr().out


@pytest_twisted.inlineCallbacks
def test_deletions_that_the_lcc_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Said at each connection, until somebody says that they are meant: with whatever set there is, if only an empty
    one."""
    state = StateFile(tmp_path / "state")
    with listening(reactor, Script(held=700)) as script:
        assert (yield run(script, None)) == 0
        said = capsys.readouterr()
        text = "700 URLs of 6,300 in the cache are not in the last full set: deletion held"
        assert f"HELD:        {text}" in said.out
        assert (
            f"warning: {text}" in said.err
            and "next: if the pages are gone, run the pipeline again with lcccp --allow-deletions;" in said.err
        )
        for count, allowed in ((3, False), (0, False), (0, True), (3, True)):
            StateWriter(state.pending, "t").close()
            with spooled(count, statefile=state.path) as spool:
                assert (yield run(script, spool, state, allow_deletions=allowed)) == 0
            said = capsys.readouterr()
            assert f"warning: {text}" in said.err
            assert ("next: if the pages are gone" in said.err) is not allowed
            assert ("accepted: the deletions that the LCC held" in said.out) is allowed
    assert [(begin.deletions, len(elements)) for begin, elements in script.sets] == [(False, 3), (True, 0), (True, 3)]


@pytest.mark.parametrize(
    ("stop", "full", "held", "noted"),
    [
        ("", False, 700, DELETIONS_RELEASED),
        ("lost-answer", False, 700, DELETIONS_RELEASED),
        ("reject", False, 700, "old-files"),
        ("lost-set", False, 700, "old-files"),
        ("", False, 0, "old-files"),
        ("", True, 700, ""),
    ],
)
@pytest_twisted.inlineCallbacks
def test_deletions_of_whatever_set_were_released(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stop: str, full: bool, held: int, noted: str
) -> Any:
    """The state file may not match any more, so that a full set is wanted, whatever the LCC says, until one is
    accepted."""
    state = StateFile(tmp_path / "state")
    StateWriter(state.pending, "t").close()
    script = Script(stop=stop, held=held, wanted="old-files")
    with listening(reactor, script), spooled(5000, statefile=state.path, full=full) as spool:
        yield run(script, spool, state, allow_deletions=True, quiet=True)
    assert state.full_set_wanted() == noted
    said = capsys.readouterr().err
    assert (f"may have fewer URLs than {state.path} says: the next run sends a full set" in said) is (
        noted == DELETIONS_RELEASED and not stop
    )
    with listening(reactor, Script()) as script:
        assert (yield run(script, None, state)) == 0
    assert state.full_set_wanted() == (noted if noted == DELETIONS_RELEASED else "")
    StateWriter(state.pending, "t").close()
    with listening(reactor, Script()) as script, spooled(3, statefile=state.path, full=True) as spool:
        assert (yield run(script, spool, state)) == 0
    assert state.full_set_wanted() == ""


@pytest_twisted.inlineCallbacks
def test_only_what_was_said_to_be_held_is_released(capsys: pytest.CaptureFixture[str]) -> Any:
    """A full set that the LCC has not looked at yet may be held later; nobody has been told of that."""
    with listening(reactor, Script()) as script:
        for count, full in ((3, False), (0, False), (3, True)):
            with spooled(count, full=full) as spool:
                assert (yield run(script, spool, allow_deletions=True)) == 0
            assert ("the LCC holds no deletions" in capsys.readouterr().out) is not full
    assert [(begin.full, begin.deletions) for begin, _ in script.sets] == [(False, False), (True, True)]


@pytest.mark.parametrize(
    ("full", "options", "said"),
    [(True, {}, True), (False, {}, False), (True, {"quiet": True}, False), (True, {"allow_deletions": True}, False)],
)
@pytest_twisted.inlineCallbacks
def test_a_full_set_may_be_held(
    capsys: pytest.CaptureFixture[str], full: bool, options: dict[str, bool], said: bool
) -> Any:
    with listening(reactor, Script()) as script, spooled(3, full=full) as spool:
        assert (yield run(script, spool, **options)) == 0
    output = capsys.readouterr()
    assert ("lcccp --check shows whether the LCC holds deletions of this set" in output.out) is said
    assert output.err == ""


@pytest_twisted.inlineCallbacks
def test_check(capsys: pytest.CaptureFixture[str]) -> Any:
    script = Script(wanted="cache-crash", errors=1, files_free=10, space_free=5_000_000)
    with listening(reactor, script):
        assert (yield run(script, None)) == 0
        script.stop = "init"
        assert (yield run(script, None)) == 3
    said = capsys.readouterr()
    for text in ("number 12", "192.0.2.7", "text/*", "10 free", "4.8 MiB free", "3 more", "5 URLs", "cache-crash"):
        assert text in said.out
    assert "404 http://site/lost.html" in said.err
    assert script.sets == []


@pytest.mark.parametrize(
    ("files", "space", "full", "text"),
    [
        (9, None, False, "exceeds the file quota: 10 files, room for 9"),
        (9, None, True, "exceeds the file quota"),
        (None, 999, False, "may exceed the space quota: 1,000 bytes, room for 999 bytes"),
        (None, 999, True, "exceeds the space quota"),
        (10, 1000, False, ""),
        (10, 1000, True, ""),
    ],
)
@pytest_twisted.inlineCallbacks
def test_quota_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: int | None, space: int | None, full: bool, text: str
) -> Any:
    state = StateFile(tmp_path / "state")
    StateWriter(state.pending, "t").close()
    script = Script(files_free=files, space_free=space)
    with listening(reactor, script), spooled(10, statefile=state.path, full=full) as spool:
        assert (yield run(script, spool, state)) == 0
    said = capsys.readouterr().err
    assert text in said
    assert bool(said) == bool(text)


@pytest.mark.parametrize(("blanked", "text"), [(1, "1 subtype was left"), (2, "2 subtypes were left"), (0, "")])
@pytest_twisted.inlineCallbacks
def test_subtypes_that_are_left_out(capsys: pytest.CaptureFixture[str], blanked: int, text: str) -> Any:
    with listening(reactor, Script(blanked=blanked)) as script, spooled(3) as spool:
        assert (yield run(script, spool)) == 0
    said = capsys.readouterr().err
    assert text in said and bool(said) == bool(text)


@pytest_twisted.inlineCallbacks
def test_a_progress_bar_for_a_person(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with listening(reactor, Script()) as script, spooled(3000) as spool:
        assert (yield run(script, spool)) == 0
    assert "accepted" in capsys.readouterr().out


@pytest_twisted.inlineCallbacks
def test_other_programs_submit() -> Any:
    counts: list[int] = []
    with listening(reactor, Script()) as script:
        endpoint = uns_endpoint(reactor, f"127.0.0.1:{script.port}")
        urls = ({"c": f"{number}", "m": "text/html"} for number in range(1200))
        submission = yield submit(reactor, endpoint, 1, "secret", urls, full=True, on_progress=counts.append)
        assert (submission.received, submission.sent, counts[-1]) == (1200, 1200, 1200)
        assert script.sets[0][0].full
        silent = Script(stop="silent")
        with listening(reactor, silent):
            waiting = submit(reactor, uns_endpoint(reactor, f"127.0.0.1:{silent.port}"), 1, "secret", [])
            while not silent.inits:
                yield submitter_module.deferLater(reactor, 0.001)
            waiting.cancel()
            with pytest.raises(Unreachable, match="interrupted"):
                yield waiting


def stream(text: str, full: bool = False, anyway: bool = False) -> Spool:
    return spool_stream(io.BytesIO(text.encode()), full, anyway, False)


def test_streams_that_must_not_be_sent_so() -> None:
    state = Header("lcccpstate", False, Path("/s"), "t").line() + '<?lcc-end count="0"?>\n'
    with pytest.raises(StreamFault, match="would delete everything except these changes"):
        stream(state, full=True)
    with pytest.raises(StreamFault, match="mixed"):
        stream(state + state)
    with pytest.raises(StreamFault, match="deletes the whole site"):
        stream('<url c="a" op="delete"/>', full=True)
    stream("", full=True, anyway=True)._file.close()
    with stream('<url c="a" len="5"/><url c="b" op="delete"/><url c="c" len="x"/>') as spool:
        plan = spool.plan
        assert (plan.elements, plan.deletions, plan.bytes, plan.added) == (3, 1, 5, None)
        assert len(list(spool.elements())) == len(list(spool.elements())) == 3


def test_the_password_does_not_show() -> None:
    assert "secret" not in repr(Orders("h", 1, "secret", "", 1, 0, 1, False))
