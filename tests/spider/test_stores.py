"""Stores: what is behind a place is taken back, whatever happened; files rotate; replay software reads them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from lcc.errors import ConfigError
from lcc.model.spider.links import Link, Page, PageLinks, StoreSettings
from lcc.protocols.cdxj import index_lines
from lcc.spider.stores import warc
from lcc.spider.stores.registry import installed_stores, stores_named
from lcc.spider.stores.segments import Segments
from lcc.storage.disk.file_system import DISK
from lcc.testing.simulated.disk import SimulatedDisk
from tests.support.pages import page

FEW = StoreSettings(segment_bytes=1200)
NAMES = ("links", "text", "warc")


def opened(name: str, folder: Path, place: str = "", settings: StoreSettings = FEW, disk: Any = DISK) -> Any:
    return installed_stores()[name].open(folder, place, disk, settings)


def read(number: int, count: int = 3) -> tuple[Page, PageLinks]:
    """A page with links and text."""
    url = f"http://h.example/{number}"
    links = tuple(Link(f"{url}/{n}", f"text ä {number}-{n}", "nofollow" if n else "") for n in range(count))
    text = Random(number).randbytes(100).hex()
    content = f"<a href=x>{text}</a>"
    return page(url, content, change=number), PageLinks(links, url, title=f"T{number}", text=text)


def written(store: Any, pages: Sequence[tuple[Page, PageLinks]]) -> str:
    store.write(pages)
    place: str = store.flush()
    return place


def kept(folder: Path) -> list[str]:
    """What is in all files, in order: URLs of the pages, or of the links."""
    found = []
    for path in sorted(folder.iterdir()):
        if ".ndjson.gz" in path.name:
            for line in gzip.decompress(path.read_bytes()).splitlines():
                each = json.loads(line)
                found.append(each.get("target") or each["url"])
        elif ".warc.gz" in path.name:
            with path.open("rb") as file:
                found += [
                    record.rec_headers.get_header("WARC-Target-URI")
                    for record in ArchiveIterator(file)
                    if record.rec_type in ("resource", "response", "revisit")
                ]
    return found


def expected(name: str, numbers: Sequence[int]) -> list[str]:
    urls = [f"http://h.example/{number}" for number in numbers]
    return [f"{url}/{n}" for url in urls for n in range(3)] if name == "links" else urls


def test_those_that_come_with_the_lcc_and_those_that_do_not() -> None:
    assert sorted(installed_stores()) == [*NAMES]
    assert [store.name for store in stores_named(["warc", "links", "warc"])] == ["warc", "links"]
    assert [store.name for store in installed_stores().values() if store.wants_text] == ["text"]
    with pytest.raises(ConfigError, match="no store 'wrac'; there are links, text, warc"):
        stores_named(["wrac"])


def test_the_link_log_has_a_line_for_each_link(tmp_path: Path) -> None:
    store = opened("links", tmp_path)
    place = written(store, [read(1, 2), read(2, 0), read(3, 1)])
    store.close()
    assert place.startswith("1:")
    (file,) = tmp_path.iterdir()
    assert file.name == "links-00000001.ndjson.gz.open"
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert lines[1] == {
        "source": "http://h.example/1",
        "target": "http://h.example/1/1",
        "text": "text ä 1-1",
        "rel": "nofollow",
        "element": "a",
        "change": 1,
    }
    assert [line["change"] for line in lines] == [1, 1, 3]


def test_strange_texts_are_kept_as_lines(tmp_path: Path) -> None:
    store = opened("links", tmp_path)
    link = Link("http://h.example/x", 'a "b"\n\u2028\ud800\0')
    written(store, [(page("http://h.example/"), PageLinks((link,)))])
    store.close()
    (file,) = tmp_path.iterdir()
    (line,) = gzip.decompress(file.read_bytes()).split(b"\n")[:-1]
    assert json.loads(line)["text"] == 'a "b"\n\u2028?\0'


@pytest.mark.parametrize("name", NAMES)
def test_what_is_behind_the_place_is_taken_back(name: str, tmp_path: Path) -> None:
    store = opened(name, tmp_path)
    place = written(store, [read(1), read(2)])
    written(store, [read(3)])
    store.write([read(4)])
    store.close()  # as a process that is killed does
    store = opened(name, tmp_path, place)
    place = written(store, [read(5)])
    store.close()
    assert kept(tmp_path) == expected(name, [1, 2, 5])
    store = opened(name, tmp_path, place)
    assert store.flush() == place
    store.close()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_was_committed_yet(name: str, tmp_path: Path) -> None:
    store = opened(name, tmp_path)
    written(store, [read(1)])
    store.close()
    store = opened(name, tmp_path)
    written(store, [read(2)])
    store.close()
    assert kept(tmp_path) == expected(name, [2])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_files_rotate_and_a_place_in_a_closed_one_opens_it_again(name: str, seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    place, store, committed, number = "", opened(name, tmp_path), [], 0
    for _ in range(25):
        batch = [number + n for n in range(chance.randrange(1, 4))]
        number += len(batch)
        next_place = written(store, [read(each) for each in batch])
        if chance.random() < 0.3:
            store.close()  # killed before the commit
            store = opened(name, tmp_path, place)
        else:
            place = next_place
            committed += batch
    store.close()
    opened(name, tmp_path, place).close()
    assert kept(tmp_path) == expected(name, committed)
    files = sorted(path for path in tmp_path.iterdir() if not path.name.endswith(".cdxj"))
    assert len(files) > 2
    assert [path.name.endswith(".open") for path in files] == [False] * (len(files) - 1) + [True]
    assert all(path.stat().st_size >= FEW.segment_bytes for path in files[:-1])
    indexes = [path.name.removesuffix(".cdxj") for path in sorted(tmp_path.glob("*.cdxj"))]
    assert indexes == ([path.name.partition(".")[0] for path in files[:-1]] if name == "warc" else [])


@pytest.mark.parametrize("name", NAMES)
def test_closed_files_may_be_moved_away_and_those_of_a_lost_frontier_stay(name: str, tmp_path: Path) -> None:
    store = opened(name, tmp_path)
    numbers = range(20)
    place = ""
    for number in numbers:
        place = written(store, [read(number)])
    store.close()
    before = kept(tmp_path)
    store = opened(name, tmp_path)  # of a new frontier
    written(store, [read(100)])
    store.close()
    assert kept(tmp_path) == before + expected(name, [100])
    for path in tmp_path.iterdir():
        path.unlink()
    store = opened(name, tmp_path, place)
    written(store, [read(101)])
    store.close()
    assert kept(tmp_path) == expected(name, [101])


def test_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    for place in ("x", "1", "1:-1", "0:0", "1:1:1", ":"):
        with pytest.raises(OSError, match="no place"):
            Segments(tmp_path, "x-{}", place, DISK, 10)


def test_a_power_cut_takes_nothing_that_was_committed() -> None:
    for seed in range(40):
        chance = Random(seed)
        disk = SimulatedDisk(chance)
        disk.make_folder("/s")
        disk.sync_all("/")
        place, committed = "", b""
        segments = Segments(Path("/s"), "x-{}", place, disk, 50)
        for number in range(30):
            piece = b"%d," % number
            segments.write(piece)
            next_place = segments.sync()
            if chance.random() < 0.2:
                disk.power_cut()
                segments = Segments(Path("/s"), "x-{}", place, disk, 50)
            else:
                place = next_place
                committed += piece
        disk.power_cut()
        Segments(Path("/s"), "x-{}", place, disk, 50)
        names = sorted(name for name, _ in disk.names("/s"))
        assert b"".join(disk.read(f"/s/{name}") for name in names) == committed, seed


def test_a_full_disk_is_told_and_what_was_committed_stays() -> None:
    disk = SimulatedDisk(Random(1))
    disk.make_folder("/s")
    store = opened("links", Path("/s"), disk=disk)
    place = written(store, [read(1)])
    disk.is_full = True
    with pytest.raises(OSError):
        for number in range(2, 100):
            written(store, [read(number)])
    store.close()
    disk.is_full = False
    store = opened("links", Path("/s"), place, disk=disk)
    written(store, [read(5)])
    (name,) = (name for name, _ in disk.names("/s"))
    lines = gzip.decompress(disk.read(f"/s/{name}")).splitlines()
    assert [json.loads(line)["source"][-1] for line in lines] == ["1"] * 3 + ["5"] * 3


# WARC.


def test_pages_are_records_and_their_index_finds_each(tmp_path: Path) -> None:
    store = opened("warc", tmp_path, settings=StoreSettings(segment_bytes=4000))
    headers = json.dumps(["Content-Type", "text/html; charset=utf-8", "Link", "<x>"])
    answered = page("http://h.example/a", "<p>ä", status=200, headers=headers, change=7)
    same = page("http://h.example/b", "<p>ä", status=200, headers=headers)
    cut = answered._replace(row=page("http://h.example/cut").row, whole=False)
    # As they come from lcc-cu, which does not tell the status.
    over_ftp, over_http = page("ftp://h.example/folder/", "a"), page("https://h.example/c", "<p>c", headers=headers)
    written(store, [(each, PageLinks()) for each in (answered, same, cut, over_ftp, over_http)])
    number = 0
    while not (tmp_path / "pages-00000002.warc.gz").exists():
        number += 1
        written(store, [read(number)])
    store.close()
    first = tmp_path / "pages-00000001.warc.gz"
    with first.open("rb") as file:
        kinds = [record.rec_type for record in ArchiveIterator(file)]
    assert kinds[:6] == ["warcinfo", "response", "revisit", "metadata", "resource", "response"]
    assert set(kinds[6:]) == {"response"}
    lines = (tmp_path / "pages-00000001.cdxj").read_bytes().splitlines(keepends=True)
    with first.open("rb") as file:
        assert lines == sorted(index_lines(file, first.name))
    fields = json.loads(lines[-1].split(b" ", 2)[2])
    with first.open("rb") as file:
        file.seek(int(fields["offset"]))
        record = next(iter(ArchiveIterator(file)))
        assert record.rec_headers.get_header("WARC-Target-URI") == fields["url"]
    with (tmp_path / "pages-00000002.warc.gz").open("rb") as file:
        assert next(iter(ArchiveIterator(file))).rec_type == "warcinfo"


def test_without_the_libraries_the_store_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warc, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs warcio and surt.  Next: install lcc\[warc\]"):
        opened("warc", tmp_path)
