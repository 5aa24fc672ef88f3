"""Folders of ftp and file as lists of URIs, for who asks for no type; and types by names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet import reactor as global_reactor

from lcc.config import BotConfig
from lcc.fetchers import file
from lcc.fetchers.file import FileFetcher
from lcc.fetchers.folders import Entry, read_list, read_mlsd
from lcc.fetchers.ftp import FtpFetcher
from lcc.model import FetchOrder
from tests.support.roles.fetchers import Outcome, Sink, close_clean, collect, stay
from tests.support.servers.vsftpd import PrivateVsftpd

reactor: Any = global_reactor


async def fetched(fetcher: Any, url: str, mimetype: str = "", **fields: Any) -> Outcome:
    sink = Sink()
    order = FetchOrder(1, url, mimetype, private=True, **fields)
    outcome: Outcome = await collect(fetcher.fetch(order, sink, stay), sink)
    return outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An allowed folder with something of each kind."""
    folder = tmp_path / "srv"
    (folder / "sub").mkdir(parents=True)
    for name in ("a b.html", "ü?#%.txt", ".hidden", "sub/page.html", "README"):
        (folder / name).write_text(name)
    (folder / "Å\x85").write_text("")
    (folder / "circle").symlink_to(folder)
    (folder / "link.html").symlink_to("a b.html")
    (tmp_path / "outside").mkdir()
    return folder


NAMES = ["README", "a%20b.html", "link.html", "sub/", "%C3%85%C2%85", "%C3%BC%3F%23%25.txt"]


async def test_a_folder_of_files(folder: Path) -> None:
    fetcher = FileFetcher(reactor, BotConfig(file_folders=(str(folder),)))
    outcome = await fetched(fetcher, f"file://{folder}/")
    assert outcome.content.decode().splitlines() == [f"file://{folder}/{name}" for name in NAMES]
    assert outcome.fetched is not None
    assert (outcome.fetched.mimetype, outcome.fetched.revalidate) == ("text/uri-list", True)
    etag = outcome.fetched.etag
    again = await fetched(fetcher, f"file://{folder}/", conditional=True, etag=etag)
    assert again.fetched is not None and again.fetched.unchanged
    (folder / "new").touch()
    again = await fetched(fetcher, f"file://{folder}/", conditional=True, etag=etag)
    assert again.content.endswith(b"\r\n") and b"/new\r\n" in again.content
    typed = await fetched(fetcher, f"file://{folder}/sub/", "text/uri-list")
    assert typed.content.decode() == f"file://{folder}/sub/page.html\r\n"


async def test_a_folder_is_no_document_to_others_and_none_outside_is_told(folder: Path) -> None:
    fetcher = FileFetcher(reactor, BotConfig(file_folders=(str(folder),)))
    for url, mimetype in (
        (f"file://{folder}/", "text/html"),
        (f"file://{folder}", ""),
        (f"file://{folder.parent}/", ""),
        (f"file://{folder.parent}/outside/", ""),
    ):
        assert (await fetched(fetcher, url, mimetype)).error == "file-forbidden", url
    (folder / "out").symlink_to(folder.parent / "outside")
    assert (await fetched(fetcher, f"file://{folder}/out/")).error == "file-forbidden"
    assert (await fetched(fetcher, f"file://{folder}/README/")).error in ("http-404", "file-forbidden")
    assert (await fetched(fetcher, f"file://{folder}/none/")).error == "http-404"


async def test_a_folder_has_an_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "ENTRIES_MAX", 3)
    fetcher = FileFetcher(reactor, BotConfig(file_folders=(str(folder),)))
    assert (await fetched(fetcher, f"file://{folder}/")).error == "body-too-long"


async def test_types_by_names_where_none_is_told(folder: Path) -> None:
    fetcher = FileFetcher(reactor, BotConfig(file_folders=(str(folder),)))
    for name, mimetype in (("a%20b.html", "text/html"), ("README", "application/octet-stream")):
        outcome = await fetched(fetcher, f"file://{folder}/{name}")
        assert outcome.fetched is not None and outcome.fetched.mimetype == mimetype
        told = await fetched(fetcher, f"file://{folder}/{name}", "text/plain")
        assert told.fetched is not None and told.fetched.mimetype == ""
    refused = await fetched(fetcher, f"file://{folder}/README", accepts="text/* image/png")
    assert (refused.error, refused.content) == ("mimetype-not-accepted", b"")
    assert (await fetched(fetcher, f"file://{folder}/", accepts="text/*")).content


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateVsftpd]:
    with PrivateVsftpd() as server:
        yield server


async def test_a_folder_of_ftp(server: PrivateVsftpd) -> None:
    for name in ("pub/a b.html", "pub/ü.txt", "pub/Å", "pub/sub dir/x", "pub/-la/y", "pub/.hidden", "-top/z"):
        server.put(name, b"content")
    fetcher = FtpFetcher(reactor, BotConfig(connect_timeout=30.0, idle_timeout=30.0, deadline=90.0))
    outcome = await fetched(fetcher, f"{server.base}/pub/")
    names = ["-la/", "a%20b.html", "sub%20dir/", "%C3%85", "%C3%BC.txt"]
    assert outcome.error == ""
    assert outcome.content.decode().splitlines() == [f"{server.base}/pub/{name}" for name in names]
    assert outcome.fetched is not None
    assert (outcome.fetched.mimetype, outcome.fetched.revalidate) == ("text/uri-list", False)
    assert (
        await fetched(fetcher, f"{server.base}/pub/sub%20dir/")
    ).content == f"{server.base}/pub/sub%20dir/x\r\n".encode()
    assert (await fetched(fetcher, f"{server.base}/pub/-la/")).content.endswith(b"/y\r\n")
    assert (await fetched(fetcher, f"{server.base}/-top/")).content.endswith(b"/z\r\n")
    top = (await fetched(fetcher, f"{server.base}/")).content.decode()
    assert f"{server.base}/pub/\r\n" in top
    page = await fetched(fetcher, f"{server.base}/pub/a%20b.html")
    assert page.fetched is not None and (page.content, page.fetched.mimetype) == (b"content", "text/html")
    assert (await fetched(fetcher, f"{server.base}/pub/", "text/html")).error == "scheme-unsupported"
    await close_clean(fetcher)


def test_lists_of_many_servers() -> None:
    lines = (
        "total 3",
        "drwxr-xr-x    2 0        0            4096 Jan 01 12:00 pub",
        "-rw-r--r--   1 ftp      domain users     17 Feb  9  2009 a  file",
        "-rw-r--r--+ 1 1000 1000 17 9 Feb 2009 day first",
        "lrwxrwxrwx 1 0 0 9 Jan 01 12:00 link -> /etc/passwd",
        "crw-rw-rw- 1 0 0 1, 3 Jan 01 12:00 null",
        "03-21-09  12:00PM       <DIR>          Program Files",
        "03-21-2009  12:00                  17 x.txt",
        "",
        "nonsense",
    )
    assert list(read_list(lines)) == [
        *(Entry("pub", True), Entry("a  file", False), Entry("day first", False), Entry("link", False)),
        *(Entry("Program Files", True), Entry("x.txt", False)),
    ]
    assert list(
        read_mlsd(
            ("type=cdir; .", "Type=dir;modify=1; sub", "size=3;type=file; a b", "type=OS.unix=slink; l", "x", "")
        )
    ) == [Entry("sub", True), Entry("a b", False)]


@given(st.lists(st.text("d-rwxl 019:JanFeb\\<DIR>;type=fl\x85", max_size=60)))
def test_no_list_breaks_the_reader(lines: list[str]) -> None:
    assert len([*read_list(lines), *read_mlsd(lines)]) <= 2 * len(lines)


def test_long_lines_cost_little() -> None:
    spaces = "-rw-r--r--" + " a" * 100_000
    assert [*read_list([spaces, "-rw-r--r-- " + " Jan 01" * 500, os.fsdecode(b"\xff" * 5000)])] == []
