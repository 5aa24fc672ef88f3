"""What an export is, and that its place moves on only when the consumer has succeeded."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.domain.keys import url_key
from tests.support.processes.engines import ENGINES, Engine, Omega, SwishE
from tests.support.processes.system import BIN
from tests.support.roles.content_users import Api
from tests.support.waiting import wait_for

from .kit import HTML, IMAGE, TEXT, Pages, check, command, run

A = "http://www.example.org/"


def key(curl: str, pid: int = 1, mimetype: str = HTML) -> str:
    return url_key(pid, curl, mimetype).hex()


async def exported(api: Api, folder: Path, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = await deferToThread(run, command(api, *words), folder)
    assert done.returncode == expect, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def actions(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Bulk actions: what, the key, the document."""
    found = []
    lines = iter(text.splitlines())
    for line in lines:
        ((what, target),) = json.loads(line).items()
        found.append((what, target["_id"], json.loads(next(lines)) if what == "index" else {}))
    return found


@pytest_twisted.ensureDeferred
async def test_ndjson(api: Api, pages: Pages, tmp_path: Path) -> None:
    pages.put_data(
        f"{A}a", b'<title>A &amp; B</title>caf\xe9 "x"\n\\', charset="iso-8859-1", burl=f"{A}show", mtime=17
    )
    pages.put_data(f"{A}b", "naïve 中".encode() * 50_000, mimetype=TEXT, subtype="kind: note")
    pages.put_data(f"{A}i", bytes(range(256)) * 1000, mimetype=IMAGE)
    pages.put(f"{A}gone")
    pages.delete(f"{A}gone")
    found = {name: document for what, name, document in actions((await exported(api, tmp_path, "ndjson")).stdout)}
    assert found.keys() == {key(f"{A}a"), key(f"{A}b", mimetype=TEXT), key(f"{A}i", mimetype=IMAGE)}
    assert found[key(f"{A}a")] == {
        "url": f"{A}show",
        "curl": f"{A}a",
        "provider": 1,
        "mimetype": HTML,
        "title": "A & B",
        "modified": 17_000,
        "fetched": 1_700_000_000_000,
        "size": 34,
        "content": '<title>A &amp; B</title>café "x"\n\\',
    }
    text = found[key(f"{A}b", mimetype=TEXT)]
    assert text["content"] == "naïve 中" * 50_000 and text["subtype"] == "kind: note"
    assert not {"content", "data"} & found[key(f"{A}i", mimetype=IMAGE)].keys()
    done = await exported(api, tmp_path, "ndjson", "--all-types", "--index", "pages", "--mimetype", "image/*")
    ((_, _, image),) = actions(done.stdout)
    assert base64.b64decode(image["data"]) == bytes(range(256)) * 1000
    assert json.loads(done.stdout.splitlines()[0])["index"]["_index"] == "pages"


@pytest_twisted.ensureDeferred
async def test_the_state_moves_on_only_with_the_consumer(api: Api, pages: Pages, tmp_path: Path) -> None:
    for number in range(3):
        pages.put(f"{A}{number}")

    async def export(
        script: str, expect: int = 0, *options: str
    ) -> tuple[str, list[tuple[str, str, dict[str, Any]]]]:
        (tmp_path / "got").unlink(missing_ok=True)
        words = ("ndjson", "--since", "state", *options, "--", "sh", "-c", f'echo "$LCC_EXPORT" >mode; {script}')
        done = await exported(api, tmp_path, *words, expect=expect)
        return done.stderr, actions((tmp_path / "got").read_text()) if (tmp_path / "got").exists() else []

    said, got = await export("cat >got; exit 7", 1)
    assert "the consumer failed (exit code 7)" in said and len(got) == 3
    said, got = await export("kill -9 $$", 1)
    assert "signal 9" in said
    assert (tmp_path / "mode").read_text() == "full\n"
    said, got = await export("cat >got")
    assert len(got) == 3 and said == ""
    (tmp_path / "mode").unlink()
    said, got = await export("cat >got")
    assert said == "nothing has changed\n" and not (tmp_path / "mode").exists(), "nobody was run"

    pages.put(f"{A}0")
    pages.delete(f"{A}1")
    said, got = await export("cat >got; false", 1)
    expected = [("index", key(f"{A}0")), ("delete", key(f"{A}1"))]
    assert [(what, name) for what, name, _ in got] == expected
    pages.delete(f"{A}0")
    pages.put(f"{A}3")
    pages.delete(f"{A}3")  # the consumer never hears of it
    said, got = await export("cat >got")
    assert [(what, name) for what, name, _ in got] == [("delete", key(f"{A}0")), ("delete", key(f"{A}1"))]
    assert (tmp_path / "mode").read_text() == "changes\n"

    # Who succeeds without having read it all has not succeeded.
    pages.put_data(f"{A}big", b"x" * 5_000_000, mimetype=TEXT)
    said, _ = await export("exit 0", 1)
    assert "before reading everything" in said
    said, got = await export("cat >got")
    assert [name for _, name, _ in got] == [key(f"{A}big", mimetype=TEXT)]
    said, _ = await export("", 1, "--rebuild")
    said, got = await export("cat >got")
    assert (tmp_path / "mode").read_text() == "full\n", "a rebuild that failed is still to be done"
    assert {name for _, name, _ in got} == {key(f"{A}2"), key(f"{A}big", mimetype=TEXT)}


@pytest_twisted.ensureDeferred
async def test_batches(api: Api, pages: Pages, tmp_path: Path) -> None:
    for number in range(20):
        pages.put_data(f"{A}{number}", b"x" * 1000, mimetype=TEXT)
    script = 'cat >part.$$; echo "$LCC_EXPORT" >>modes'
    words = ("ndjson", "--since", "state", "--batch-bytes", "5000", "--", "sh", "-c", script)
    await exported(api, tmp_path, *words)
    parts = sorted(tmp_path.glob("part.*"))
    modes = (tmp_path / "modes").read_text().split()
    assert len(parts) == len(modes) >= 4 and modes == ["full", *["changes"] * (len(modes) - 1)]
    names = [name for part in parts for _, name, _ in actions(part.read_text())]
    assert len(names) == len(set(names)) == 20


@pytest_twisted.ensureDeferred
async def test_files(api: Api, pages: Pages, tmp_path: Path) -> None:
    words = ("swish-e", "--since", "state", "--output", "out")
    done = await exported(api, tmp_path, *words)
    assert "nothing to export" in done.stderr and not (tmp_path / "out").exists()
    pages.put(A)
    await exported(api, tmp_path, *words)
    first = (tmp_path / "out").read_bytes()
    pages.put(f"{A}2")
    done = await exported(api, tmp_path, *words, expect=1)
    assert "already exists" in done.stderr and (tmp_path / "out").read_bytes() == first
    (tmp_path / "out").rename(tmp_path / "used")
    await exported(api, tmp_path, *words)
    assert f"Path-Name: {A}2\n" in (tmp_path / "out").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out", "state", "used"]
    # Without a state each file is whole.
    await exported(api, tmp_path, "swish-e", "-o", "out")
    assert (tmp_path / "out").read_text().count("Path-Name: http") == 2
    done = await exported(api, tmp_path, "swish-e", "-o", "nowhere/out", expect=1)
    assert "nowhere" in done.stderr


@pytest_twisted.ensureDeferred
async def test_changes_that_are_no_longer_known(api: Api, pages: Pages, tmp_path: Path) -> None:
    engine = Omega(tmp_path)
    for number in range(4):
        pages.put(f"{A}{number}")
    assert (await deferToThread(run, engine.export(command(api)), tmp_path)).returncode == 0
    # A backup was put back: the changes are numbered anew, and two pages are not in it.
    pages.cache.clear()
    pages.now.clear()
    for number in (0, 1, 7):
        pages.put(f"{A}{number}")
    pages.cache.database.now(lambda txn: txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'"))
    for _ in range(2):
        done = await deferToThread(run, engine.export(command(api)), tmp_path)
        assert done.returncode == 3 and "--rebuild" in done.stderr
    done = await deferToThread(run, engine.export(command(api), "--rebuild"), tmp_path)
    assert done.returncode == 0, done.stderr
    await deferToThread(check, pages, engine, False)


@pytest_twisted.ensureDeferred
async def test_a_rebuild_also_tells_what_is_gone(api: Api, pages: Pages, tmp_path: Path) -> None:
    pages.put(f"{A}1")
    pages.put(f"{A}2")
    await exported(api, tmp_path, "ndjson", "--since", "state", "--", "sh", "-c", "cat >got")
    pages.delete(f"{A}1")
    await exported(api, tmp_path, "ndjson", "--since", "state", "--rebuild", "--", "sh", "-c", "cat >got")
    got = {name: what for what, name, _ in actions((tmp_path / "got").read_text())}
    assert got == {key(f"{A}1"): "delete", key(f"{A}2"): "index"}


@pytest_twisted.ensureDeferred
async def test_what_is_refused(api: Api, pages: Pages, tmp_path: Path) -> None:
    pages.put(A)
    consumer = ("--", "sh", "-c", "cat >got")
    for words, text in (
        (("ndjson", "--since", "state"), "is unknown"),
        (("ndjson", "-o", "x", *consumer), "give either a command or --output"),
        (("ndjson", "--batch-bytes", "1", "-o", "x"), "--batch-bytes is for a command"),
        (("htdig", "--since", "state"), "give the command"),
        (("swish++",), "--mirror"),
        (("omega", "--mimetype", "text", *consumer), "--mimetype"),
    ):
        done = await exported(api, tmp_path, *words, expect=2)
        assert text in done.stderr, done.stderr
    await exported(api, tmp_path, "ndjson", "--since", "state", *consumer)
    for words in (("ndjson", "--provider", "1"), ("ndjson", "--all-types"), ("omega",)):
        done = await exported(api, tmp_path, words[0], "--since", "state", *words[1:], *consumer, expect=2)
        assert "another selection" in done.stderr
    await exported(api, tmp_path, "ndjson", "--since", "state", "--provider", "1", "--rebuild", *consumer)
    await exported(api, tmp_path, "ndjson", "--since", "state", "--provider", "1", *consumer)
    one, other = ("--provider", "1"), ("--provider", "2")
    await exported(api, tmp_path, "ndjson", "--since", "several", *one, *other, *consumer)
    await exported(api, tmp_path, "ndjson", "--since", "several", *other, *one, *other, *consumer)
    (tmp_path / "text").write_text("this is no database, but long enough to be one" * 100)
    done = await exported(api, tmp_path, "ndjson", "--since", "text", *consumer, expect=1)
    assert "is not a state file" in done.stderr
    done = await exported(api, tmp_path, "ndjson", "--since", "no/state", *consumer, expect=1)
    assert "cannot be used" in done.stderr
    done = await exported(api, tmp_path, "ndjson", "--", "./no-such-program", expect=1)
    assert "cannot start" in done.stderr
    done = await deferToThread(run, [str(BIN / "lcc-export"), "--from", f"unix:{tmp_path}/x", "ndjson"], tmp_path)
    assert done.returncode == 4
    done = await deferToThread(run, [str(BIN / "lcc-htdig"), "http", A, "conf"], tmp_path)
    assert done.returncode == 1 and "is called by htdig" in done.stderr
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    done = await exported(api, tmp_path, "swish++", "--mirror", "mine", expect=1)
    assert "neither empty nor a mirror" in done.stderr and (tmp_path / "mine" / "thesis.tex").exists()


@pytest_twisted.ensureDeferred
async def test_one_export_at_a_time_and_the_consumer_dies_with_it(api: Api, pages: Pages, tmp_path: Path) -> None:
    pages.put(A)
    script = "touch begun; cat >got; until [ -e go ]; do sleep 0.05; done; touch whole"
    words = command(api, "ndjson", "--since", "state", "--", "sh", "-c", script)
    process = subprocess.Popen(words, cwd=tmp_path)
    try:
        await deferToThread(wait_for, "it runs", (tmp_path / "begun").exists)
        done = await exported(api, tmp_path, "ndjson", "--since", "state", "--", "cat", expect=1)
        assert "in use by another lcc-export" in done.stderr
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    finally:
        process.kill()
        process.wait()
    await deferToThread(wait_for, "the consumer is gone", lambda: not _lives(int(child)))
    assert not (tmp_path / "whole").exists()
    (tmp_path / "go").touch()
    await exported(api, tmp_path, "ndjson", "--since", "state", "--", "sh", "-c", script)
    assert (tmp_path / "whole").exists()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest_twisted.ensureDeferred
async def test_content_that_cannot_be_read_now(api: Api, pages: Pages, tmp_path: Path) -> None:
    engine = SwishE(tmp_path)
    pages.put(f"{A}1")
    pages.put(f"{A}2")
    files = [path for path in (tmp_path / "home" / "content").rglob("*") if path.is_file()]
    row = pages.cache.change
    path = next(path for path in files if pages.now[f"{A}2", 1, HTML].encode() in path.read_bytes())
    path.rename(tmp_path / "away")
    done = await deferToThread(run, engine.export(command(api)), tmp_path)
    assert done.returncode == 0 and "1 pages with unreadable content: retried" in done.stderr
    assert engine.found(pages.now[f"{A}1", 1, HTML]) == {f"{A}1"}
    (tmp_path / "away").rename(path)
    done = await deferToThread(run, engine.export(command(api)), tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    await deferToThread(check, pages, engine, True)
    # A row whose content is lost: it is not found any longer.
    pages.cache.put(1, f"{A}2", fetched_fileid=None, md5="")
    del pages.now[f"{A}2", 1, HTML]
    assert pages.cache.change == row + 1
    done = await deferToThread(run, engine.export(command(api)), tmp_path)
    assert done.returncode == 0, done.stderr
    await deferToThread(check, pages, engine, True)
    for number in range(3, 20):
        pages.put(f"{A}{number}")
    for path in (tmp_path / "home" / "content").rglob("*"):
        if path.is_file():
            path.unlink()
    done = await deferToThread(run, engine.export(command(api)), tmp_path)
    assert done.returncode == 4 and "cannot read content" in done.stderr


@pytest.mark.parametrize("kind", ENGINES, ids=[engine.name for engine in ENGINES])
@pytest_twisted.ensureDeferred
async def test_charsets(api: Api, pages: Pages, kind: type[Engine], tmp_path: Path) -> None:
    """One word, however it was written, is found."""
    engine = kind(tmp_path)
    cafe = "zabacafédo"
    expected = set()
    for number, (data, more) in enumerate(
        [
            (f"<p>{cafe}".encode(), {}),
            (f"<p>{cafe}".encode("latin-1"), {}),
            (f"<p>{cafe}".encode("latin-1"), {"charset": "iso-8859-1"}),
            (f"<meta charset='utf-8'><p>{cafe}".encode(), {}),
            (f"<meta charset='macroman'><p>{cafe}".encode("macroman"), {}),
            (b"<p>zabacaf&eacute;do", {}),
            (f"<p>{cafe}".encode("utf-16"), {}),
            (cafe.encode(), {"mimetype": TEXT}),
            (cafe.encode("macroman"), {"mimetype": TEXT, "charset": "macroman"}),
        ]
    ):
        pages.put_data(f"{A}{number}", data, **more)
        expected.add(f"{A}{number}")
    done = await deferToThread(run, engine.export(command(api)), tmp_path)
    assert done.returncode == 0, done.stderr
    words = {"swish-e": "zabacaf*", "swish++": "zabacafedo", "htdig": "zabacaf%E9do", "omega": cafe}
    assert engine.found(words[engine.name]) == expected


@pytest_twisted.ensureDeferred
async def test_a_mirror_is_swept(api: Api, pages: Pages, tmp_path: Path) -> None:
    for number in range(3):
        pages.put(f"{A}folder/{number}")
    words = ("swish++", "--since", "state", "--mirror", "pages")
    await exported(api, tmp_path, *words)
    mirror = tmp_path / "pages"
    assert len(list(mirror.rglob("*@*"))) == 3
    (tmp_path / "state").unlink()
    pages.delete(f"{A}folder/1")
    await exported(api, tmp_path, *words)
    assert len(list(mirror.rglob("*@*"))) == 2, "what an earlier state knew is gone"
    pages.delete(f"{A}folder/0")
    pages.delete(f"{A}folder/2")
    await exported(api, tmp_path, *words)
    assert [path.name for path in mirror.iterdir()] == [".lcc-export"]


@pytest_twisted.ensureDeferred
async def test_output_that_nobody_reads(api: Api, pages: Pages, tmp_path: Path) -> None:
    pages.put_data(A, b"x" * 3_000_000, mimetype=TEXT)
    base = " ".join(command(api, "swish-e"))
    done = await deferToThread(run, ["bash", "-c", f"{base} | head -c 10; exit ${{PIPESTATUS[0]}}"], tmp_path)
    assert done.returncode == 1 and "the reader closed the output" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest_twisted.ensureDeferred
async def test_an_interrupted_export_leaves_no_consumer(api: Api, pages: Pages, tmp_path: Path) -> None:
    pages.put(A)
    script = "echo $$ >begun; cat >got; sleep 100"
    # Tests that a shell runs in its background hand down that SIGINT is ignored.
    words = ["env", "--default-signal=INT", *command(api, "ndjson", "--", "sh", "-c", script)]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE)
    with process:
        await deferToThread(wait_for, "it runs", lambda: (tmp_path / "got").exists())
        os.kill(process.pid, signal.SIGINT)
        assert await deferToThread(process.wait, 60) != 0
    assert not _lives(int((tmp_path / "begun").read_text()))


HANGS_UP = """
import os, socket, sys
for line in sys.stdin:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["LCC_HTDIG_SOCKET"])
        connection.sendall(line.encode())
        if sys.argv[1] == "read":
            assert connection.makefile("rb").read().startswith(b"s\\t200"), line
        else:
            connection.recv(1)
    print(line.strip())
"""


@pytest_twisted.ensureDeferred
async def test_a_page_that_htdig_did_not_get_is_told_again(api: Api, pages: Pages, tmp_path: Path) -> None:
    pages.put(f"{A}small")
    pages.put_data(f"{A}large", b"<p>" + b"words " * 1_000_000)
    htdig = ("htdig", "--since", "state", "--", sys.executable, "-c", HANGS_UP)
    done = await exported(api, tmp_path, *htdig, "read")
    assert set(done.stdout.split()) == {f"{A}small", f"{A}large"}
    pages.put_data(f"{A}large", b"<p>" + b"other " * 1_000_000)
    for _ in range(2):
        done = await exported(api, tmp_path, *htdig, "hang up")
        assert done.stdout.split() == [f"{A}large"] and "retried next time" in done.stderr
    done = await exported(api, tmp_path, *htdig, "read")
    assert done.stdout.split() == [f"{A}large"] and not done.stderr
    done = await exported(api, tmp_path, *htdig, "read")
    assert done.stdout == "" and "nothing has changed" in done.stderr
