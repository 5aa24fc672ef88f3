"""The fetcher for file: what is in the allowed folders, and nothing else."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet import reactor as global_reactor

from lcc.config import BotConfig
from lcc.errors import FetchError
from lcc.fetchers.file import FileFetcher, file_path, refusal
from lcc.model import FetchOrder
from tests.support.roles.fetchers import Outcome, Sink, collect, stay

reactor: Any = global_reactor


class Files:
    """A fetcher that may read one folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.fetcher = FileFetcher(reactor, BotConfig(file_folders=(str(folder),), **settings))

    async def fetch(self, path: str | Path, **fields: Any) -> Outcome:
        sink = Sink()
        running = self.fetcher.fetch(FetchOrder(1, f"file://{path}", **fields), sink, stay)
        outcome: Outcome = await collect(running, sink)
        return outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An allowed folder, beside one that is not."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    (tmp_path / "srv").mkdir()
    return tmp_path / "srv"


@pytest_twisted.ensureDeferred
async def test_content_and_what_is_told_of_it(folder: Path) -> None:
    content = os.urandom(300_000)
    (folder / "a b").write_bytes(content)
    os.utime(folder / "a b", (1_700_000_000, 1_700_000_000.25))
    files = Files(folder)
    outcome = await files.fetch(f"{folder}/a%20b")
    assert outcome.content == content
    fetched = outcome.fetched
    assert fetched is not None and fetched.etag and fetched.revalidate
    assert (fetched.status, fetched.modified, fetched.wire_bytes) == (0, 1_700_000_000, 300_000)
    assert (await files.fetch(f"localhost{folder}/a%20b")).content == content
    (folder / "empty").touch()
    assert (await files.fetch(folder / "empty")).fetched is not None


def _overwrite(path: Path) -> None:
    path.write_bytes(b"other")


def _overwrite_with_the_same_time(path: Path) -> None:
    state = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _replace(path: Path) -> None:
    path.with_suffix(".new").write_bytes(b"12345")
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize("change", [_overwrite, _overwrite_with_the_same_time, _replace])
@pytest_twisted.ensureDeferred
async def test_what_has_not_changed_is_not_read(folder: Path, change: Callable[[Path], None]) -> None:
    page = folder / "page"
    page.write_bytes(b"12345")
    os.utime(page, (1_600_000_000, 1_600_000_000))
    files = Files(folder)
    first = (await files.fetch(page)).fetched
    assert first is not None
    same: dict[str, Any] = {"conditional": True, "etag": first.etag, "modified": first.modified, "stored_bytes": 5}
    again = await files.fetch(page, **same)
    assert again.fetched is not None and again.fetched.unchanged and again.content == b""
    assert (again.fetched.etag, again.fetched.modified) == (first.etag, first.modified)
    unasked = await files.fetch(page, **{**same, "conditional": False})
    assert unasked.fetched is not None and not unasked.fetched.unchanged and unasked.content == b"12345"
    change(page)
    changed = await files.fetch(page, **same)
    assert changed.fetched is not None and not changed.fetched.unchanged and changed.content == page.read_bytes()


@pytest_twisted.ensureDeferred
async def test_links_lead_anywhere_inside_and_nowhere_else(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real" / "page").write_text("inside")
    (folder / "link").symlink_to(folder / "real")
    (folder / "file").symlink_to("real/page")
    (folder / "out").symlink_to(folder.parent / "secret")
    (folder / "up").symlink_to("..")
    (folder / "key").symlink_to("../secret/key")
    (folder / "loop").symlink_to("loop")
    files = Files(folder)
    for inside in ("link/page", "file", "real/page"):
        assert (await files.fetch(folder / inside)).content == b"inside"
    for outside in ("out/key", "up/secret/key", "key"):
        outcome = await files.fetch(f"{folder}/{outside}")
        assert (outcome.error, outcome.content) == ("file-forbidden", b"")
    assert (await files.fetch(folder / "loop")).error == "http-404"
    # The allowed folder may be named by a link to it.
    alias = folder.parent / "alias"
    alias.symlink_to(folder)
    files = Files(alias)
    for name in (alias / "file", folder / "file"):
        assert (await files.fetch(name)).content == b"inside"


@pytest_twisted.ensureDeferred
async def test_what_is_not_allowed(folder: Path) -> None:
    (folder / "page").write_text("x")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        files = Files(folder)
        for path in (
            *("/etc/passwd", "/dev/zero", "/proc/self/environ", f"{folder.parent}/secret/key", f"{folder}x", "/"),
            *(folder, f"{folder}/folder", f"{folder}/pipe", f"{folder}/socket"),
        ):
            outcome = await files.fetch(path)
            assert (outcome.error, outcome.content) == ("file-forbidden", b""), path
    for path in (f"{folder}/nothing", f"{folder}/page/x", f"{folder}/{'x' * 300}"):
        assert (await files.fetch(path)).error == "http-404"
    none = FileFetcher(reactor, BotConfig())
    sink = Sink()
    order = FetchOrder(1, f"file://{folder}/page")
    assert (await collect(none.fetch(order, sink, stay), sink)).error == "file-forbidden"


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (errno.EACCES, "http-403"),
        (errno.ENOENT, "http-404"),
        (errno.EIO, "server-busy"),
        (errno.ESTALE, "server-busy"),
    ],
)
def test_what_the_system_refuses(number: int, name: str) -> None:
    error = refusal(OSError(number, os.strerror(number), "/the/path"))
    assert error.entry.name == name and os.strerror(number) in error.text and "/the/path" not in error.text


@pytest_twisted.ensureDeferred
async def test_limits_and_ends(folder: Path) -> None:
    (folder / "large").write_bytes(b"x" * 1_000_000)
    outcome = await Files(folder, body_bytes_max=999_999).fetch(folder / "large")
    assert (outcome.error, outcome.content) == ("body-too-long", b"")
    files = Files(folder)
    sink = Sink(room=100_000)
    order = FetchOrder(1, f"file://{folder}/large")
    assert (await collect(files.fetcher.fetch(order, sink, stay), sink)).error == "store-failed"
    sink = Sink()
    running = files.fetcher.fetch(order, sink, stay)
    outcome_of = collect(running, sink)
    await files.fetcher.close()
    assert (await outcome_of).error == "cancelled" and 0 < len(sink.content) < 1_000_000
    assert not [call for call in reactor.getDelayedCalls() if "lcc" in str(call)]
    assert not [name for name in Path("/proc/self/fd").iterdir() if _points_to(name, folder / "large")]


@pytest_twisted.ensureDeferred
async def test_a_file_that_changes_while_it_is_read_is_fetched_later(folder: Path) -> None:
    large = folder / "large"
    large.write_bytes(b"x" * 1_000_000)
    files = Files(folder)
    sink = Sink()
    running = collect(files.fetcher.fetch(FetchOrder(1, f"file://{large}"), sink, stay), sink)
    with large.open("r+b") as file:
        file.write(b"changed")
    assert (await running).error == "early-eof"


def _points_to(name: Path, path: Path) -> bool:
    try:
        return name.readlink() == path
    except OSError:
        return False


@pytest.mark.parametrize(
    "url",
    ["http://h/a", "file://host/a", "file:/a", "file:///a?b", "file:///a%00", "file:///a%2F..%2Fb", "file:///a/../b"],
)
def test_what_names_no_file(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        file_path(url)
    assert caught.value.entry.name == "scheme-unsupported"


@given(st.text(max_size=60))
def test_no_path_leads_upwards(tail: str) -> None:
    try:
        path = file_path(f"file:///srv/{tail}")
    except FetchError:
        return
    assert path.startswith(b"/srv/") and b".." not in path.split(b"/") and b"\0" not in path
