"""The three commands as a user types them, as processes in a pipe, against a UNS in this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.utils import getProcessOutputAndValue

from tests.support.servers.uns import Script, listening

BIN = Path(sys.executable).parent
SECRET = "pw-5f0c"


def shell(folder: Path, line: str, **variables: str) -> Deferred[tuple[str, str, int]]:
    """Run a line in bash with pipefail; gives what it wrote on both outputs, and its exit code."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "LCC_PASSWORD": "", **variables}
    result: Deferred[Any] = getProcessOutputAndValue(
        "/bin/bash", ["-c", f"set -o pipefail; {line}"], environment, str(folder), reactor
    )
    return result.addCallback(lambda got: (got[0].decode(), got[1].decode(), got[2]))


def pipeline(script: Script, *, find: str = "file2url --find docroot -name '*.html'", state: str = "", cp: str = "",
             password: str = f"--pwd={SECRET}") -> str:  # fmt: skip
    """The pipeline of the README."""
    return (
        f"{find} | lcccpstate --statefile=state.txt {state} | "
        f"lcccp --uns=localhost:{script.port} --pid=1 {password} --urlprefix=http://site/ {cp}"
    )


def make_site(folder: Path, count: int) -> Path:
    """A docroot of so many pages."""
    root = folder / "docroot"
    root.mkdir()
    for number in range(count):
        (root / f"p{number}.html").write_text(f"page {number}")
    return root


def sent(script: Script) -> dict[str, str]:
    """What the last set held: conceptual URL -> operation."""
    return {element["c"]: element.get("op", "update") for element in script.sets[-1][1]}


@pytest_twisted.inlineCallbacks
def test_only_what_changed_travels(tmp_path: Path) -> Any:
    root = make_site(tmp_path, 12)
    with listening(reactor, Script()) as script:
        out, err, code = yield shell(tmp_path, pipeline(script))
        assert (code, err) == (0, ""), err
        assert "accepted: a set of 12 URLs, all valid" in out
        begin, elements = script.sets[0]
        assert (begin.full, begin.urlprefix, len(elements)) == (False, "http://site/", 12)
        assert script.inits[0].password == SECRET

        (root / "p1.html").unlink()
        (root / "p2.html").write_text("changed")
        (root / "new page.html").write_text("new")
        _, err, code = yield shell(tmp_path, pipeline(script, password=""), LCC_PASSWORD=SECRET)
        assert (code, err) == (0, ""), err
        assert sent(script) == {"p1.html": "delete", "p2.html": "update", "new%20page.html": "update"}
        assert script.inits[1].password == SECRET

        # The LCC asks for a full set: this run notes it, the next one sends it.
        script.wanted = "old-files"
        _, err, code = yield shell(tmp_path, pipeline(script))
        assert code == 0
        assert "wants a full set (old-files): the next run sends one" in err
        assert len(script.sets) == 2
        _, err, code = yield shell(tmp_path, pipeline(script))
        assert code == 0
        assert "sending everything" in err
        assert script.sets[-1][0].full
        assert len(script.sets[-1][1]) == 12
        script.wanted = ""
        out, err, code = yield shell(tmp_path, pipeline(script))
        assert (code, err) == (0, ""), err
        assert "nothing has changed" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docroot", "state.txt", "state.txt.lock"]


@pytest_twisted.inlineCallbacks
def test_after_deletions_were_released_all_is_told_again(tmp_path: Path) -> Any:
    """They may be those of a set that went past lcccpstate."""
    make_site(tmp_path, 12)
    with listening(reactor, Script()) as script:
        yield shell(tmp_path, pipeline(script))
        third = 'file2url --find docroot | grep "<url" | head -4'
        lcccp = f"lcccp --uns=localhost:{script.port} --pid=1 --pwd=x --urlprefix=http://site/"
        out, err, code = yield shell(tmp_path, f"{third} | {lcccp} --full --no-end-mark")
        assert code == 0, err
        assert script.sets[-1][0].full and len(script.sets[-1][1]) == 4
        assert "lcccp --check shows" in out
        script.held = 7
        out, err, code = yield shell(tmp_path, pipeline(script, cp="--allow-deletions"))
        assert code == 0 and "the deletions that the LCC held" in out, err
        assert "state.txt says: the next run sends a full set" in err
        assert (script.sets[-1][0].deletions, script.sets[-1][1]) == (True, [])
        script.held, script.stop = 0, "reject"
        _, err, code = yield shell(tmp_path, pipeline(script))
        assert code == 3 and "lcccpstate: lcccp --allow-deletions carried out deletions" in err
        script.stop = ""
        _, err, code = yield shell(tmp_path, pipeline(script))
        assert code == 0 and "sending everything" in err
        assert script.sets[-1][0].full and len(sent(script)) == 12
        out, err, code = yield shell(tmp_path, pipeline(script))
        assert (code, err) == (0, "") and "nothing has changed" in out


@pytest_twisted.inlineCallbacks
def test_whatever_fails_nothing_is_sent_and_the_exit_code_tells(tmp_path: Path) -> Any:
    root = make_site(tmp_path, 12)
    (tmp_path / "pw").write_text(f"{SECRET}\n")
    with listening(reactor, Script()) as script:
        # A file that cannot be read, a folder that is not there, a program that is killed, one that is no such tool.
        (root / "loop.html").symlink_to("loop.html")
        one_unreadable = "cd docroot && ls | file2url"
        for find in (
            f"({one_unreadable})",
            "file2url --find nowhere",
            "(file2url --find docroot | head -5; kill -9 $BASHPID)",
            "ls docroot",
        ):
            _, err, code = yield shell(tmp_path, pipeline(script, find=find))
            assert code != 0, find
            assert "nothing is sent" in err, find
            assert "nothing was sent" in err, find
        assert script.inits == []
        assert not (tmp_path / "state.txt").exists()
        assert not (tmp_path / "state.txt.pending").exists()

        _, err, code = yield shell(tmp_path, pipeline(script, password="--pwd-file=pw", cp="--quiet"))
        assert (code, err) == (0, ""), err
        before = (tmp_path / "state.txt").read_text()
        for number in range(7):
            (root / f"p{number}.html").unlink()
        _, err, code = yield shell(tmp_path, pipeline(script))
        assert code == 2
        assert "7 of 12 URLs would be deleted" in err
        assert (tmp_path / "state.txt").read_text() == before
        assert len(script.sets) == 1
        _, err, code = yield shell(tmp_path, pipeline(script, state="--allow-mass-delete"))
        assert (code, err) == (0, ""), err
        assert len(sent(script)) == 7


@pytest_twisted.inlineCallbacks
def test_the_lcc_refuses(tmp_path: Path) -> Any:
    root = make_site(tmp_path, 5)
    with listening(reactor, Script()) as script:
        for stop, expected in (("init", 3), ("reject", 3), ("lost-answer", 4)):
            script.stop = stop
            _, err, code = yield shell(tmp_path, pipeline(script))
            assert code == expected, (stop, err)
            assert SECRET not in err
            assert "Traceback" not in err
            assert not (tmp_path / "state.txt").exists()
        # Nobody knows whether p0 went in; it is gone by now, and must not stay in the LCC.
        (root / "p0.html").unlink()
        (root / "bad.html").write_text("x")
        script.stop = ""
        _, err, code = yield shell(tmp_path, pipeline(script))
        assert code == 1
        assert "its changes are sent again" in err
        assert "1204 http://site/bad.html" in err
        assert sent(script)["p0.html"] == "delete"
        assert len(sent(script)) == 6


@pytest_twisted.inlineCallbacks
def test_check_and_wrong_usage(tmp_path: Path) -> Any:
    (tmp_path / "empty").touch()
    with listening(reactor, Script(wanted="cache-crash")) as script:
        start = f"lcccp --uns=localhost:{script.port} --pid=1 "
        out, err, code = yield shell(tmp_path, f"{start} --pwd=x --check --statefile=s.txt")
        assert (code, err) == (0, ""), err
        assert "because of cache-crash" in out
        assert (tmp_path / "s.txt.fullset-wanted").read_text() == "cache-crash\n"
        _, err, code = yield shell(tmp_path, 'echo \'<url c="a" m="t/h"/>\' | ' + start + " --pwd=x --no-end-mark")
        assert code == 0, err
        assert sent(script) == {"a": "update"}
    _, err, code = yield shell(tmp_path, f"{start} --pwd=x --check")
    assert code == 4
    assert "cannot connect" in err
    for wrong in ("", "--pwd=x --pwd-file=y", "--pwd-file=nowhere", "--pwd-file=empty", "--pwd=x --statefile=s",
                  "--pwd=x --check --allow-deletions",
                  "--pwd=x --urlprefix=site/", "--pwd=x --pid=0"):  # fmt: skip
        _, err, code = yield shell(tmp_path, f"{start} {wrong} < /dev/null")
        assert code == 2, wrong
        if wrong == "--pwd-file=nowhere":
            assert "nowhere does not exist" in err and "Errno" not in err
    (tmp_path / "spaced").write_bytes("\ufeff  two words \t\r\nmore".encode())
    with listening(reactor, Script()) as script:
        start = f"lcccp --uns=localhost:{script.port} --pid=1"
        _, err, code = yield shell(tmp_path, f"{start} --pwd-file=spaced --urlprefix=http:// --check")
        assert (code, script.inits[-1].password) == (0, "two words"), err
    for tool in ("file2url", "lcccpstate", "lcccp"):
        out, _, code = yield shell(tmp_path, f"{tool} --version")
        assert (code, out.split()[0]) == (0, f"{tool},")


@pytest_twisted.inlineCallbacks
def test_a_run_that_was_overtaken_sends_nothing(tmp_path: Path) -> Any:
    make_site(tmp_path, 3)
    with listening(reactor, Script()) as script:
        state = "file2url --find docroot | lcccpstate --statefile=state.txt"
        cp = f"lcccp --uns=localhost:{script.port} --pid=1 --pwd=x"
        _, err, code = yield shell(tmp_path, f"{state} > first; {state} > second; {cp} < first")
        assert code == 2
        assert "another run of lcccpstate" in err
        _, err, code = yield shell(tmp_path, f"flock state.txt.lock {cp} < second")
        assert code == 2
        assert "another run is using" in err
        assert script.inits == []
        _, err, code = yield shell(tmp_path, f"{cp} < second")
        assert code == 0
        assert len(sent(script)) == 3


@pytest_twisted.inlineCallbacks
def test_a_set_goes_in_though_what_is_said_of_it_cannot_be_written(tmp_path: Path) -> Any:
    make_site(tmp_path, 3)
    with listening(reactor, Script(errors=2)) as script:
        # Lost: the errors of earlier fetches, which are told before the set is sent, and "accepted".
        _, _, code = yield shell(tmp_path, pipeline(script, cp="> /dev/full 2> /dev/full"))
        assert code == 0
        assert len(sent(script)) == 3
        assert (tmp_path / "state.txt").exists()
        (tmp_path / "docroot" / "bad.html").write_text("x")
        _, err, code = yield shell(tmp_path, pipeline(script, cp="> /dev/full"))
        assert code == 1
        assert "1204 http://site/bad.html" in err
        assert "lcccp: cannot write the output: No space left on device" in err
        assert "Traceback" not in err
        check = f"lcccp --uns=localhost:{script.port} --pid=1 --pwd=x --check"
        _, err, code = yield shell(tmp_path, f"{check} | true")
        assert code == 0, err
        assert "Traceback" not in err and "cannot be written" not in err
