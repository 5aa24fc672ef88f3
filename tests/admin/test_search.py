"""``lcc-admin search``, and what ``lcc-admin fsck`` says of the index."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.admin.search.comparison import beside_index, compare_index, index_folder
from lcc.commands.errors import Failed
from lcc.config import load_config
from lcc.domain.keys import url_key
from lcc.search.index import IndexState, TextIndex
from lcc.search.interfaces import IndexDamaged
from lcc.search.values import IndexedPage, RemovedPage
from lcc.storage.database.tables.rows import DELETED
from lcc.storage.database.transactions import Txn
from lcc.storage.views.selected import Selection, page_by_key
from tests.support.admin import Lcc


def test_rebuild(lcc: Lcc) -> None:
    assert "no search server uses it" in lcc.admin("search", "rebuild").stdout
    assert (lcc.folder / "home" / "search" / "rebuild").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("exists", [False, True])
def test_what_root_orders_belongs_to_the_user_of_the_search(lcc: Lcc, exists: bool) -> None:
    home = lcc.folder / "home"
    os.chown(home, 1234, 2345)
    folder = home / "search"
    if exists:
        folder.mkdir()
        os.chown(folder, 1234, 2346)
    try:
        lcc.admin("search", "rebuild")
        assert [(each.stat().st_uid, each.stat().st_gid) for each in (folder, folder / "rebuild")] == [
            (1234, 2346 if exists else 2345)
        ] * 2
    finally:
        os.chown(home, 0, 0)


def indexed(key: str, change: int) -> IndexedPage:
    return IndexedPage(key, change, 1, "http://www.example.org/", "www.example.org", "html", 0, text="words")


@pytest.fixture
def folder(lcc: Lcc) -> Path:
    """Of the index: it has all pages of the cache but one picture."""
    text = lcc.config_path.read_text()
    lcc.config_path.write_text(f'{text}[search]\nlisten = "tcp:1:interface=127.0.0.1"\nopen = true\n')
    lcc.put([{"key": number} for number in range(1, 6)] + [{"key": 6, "mimetype": "image/png"}])
    folder = lcc.folder / "home" / "search" / "index"
    index = TextIndex(folder, 16 << 20)
    index.add([indexed(row.key.hex(), row.change) for row in rows(lcc) if row.mimetype == "text/html"])
    index.commit(IndexState("t.6.0.0", complete=True))
    index.close()
    return folder


def rows(lcc: Lcc) -> list[Any]:
    return lcc.write(page_by_key, Selection()).rows


def change(folder: Path, *changes: IndexedPage | RemovedPage, token: str = "") -> None:
    index = TextIndex(folder, 16 << 20)
    index.add(changes)
    index.commit(attrs.evolve(index.state, token=token or index.state.token))
    index.close()


def faults(lcc: Lcc) -> list[tuple[str, str]]:
    config = load_config(lcc.config_path)
    folder = index_folder(config)
    assert folder is not None
    database = lcc.database()
    try:
        return [(each.kind, each.curl) for each in compare_index(config, folder, database)]
    finally:
        database.close()


def test_what_differs_from_the_cache(lcc: Lcc, folder: Path) -> None:
    assert faults(lcc) == []
    first, second, third, *_ = rows(lcc)
    change(folder, RemovedPage(first.key.hex()), indexed(second.key.hex(), 1), indexed("f" * 40, 1))
    assert faults(lcc) == [("unindexed", first.curl), ("outdated", second.curl), ("surplus", "")]
    # What changes behind the token is not there yet.
    lcc.put([{"key": 3}, {"key": 9}])
    lcc.write(remove, third.key)
    assert faults(lcc)[-1] == ("surplus", "") and len(faults(lcc)) == 3
    change(folder, token="t.99.0.0")
    assert ("surplus", third.curl) in faults(lcc) and len(faults(lcc)) == 5


def remove(txn: Txn, key: bytes) -> None:
    number = int(txn.value("SELECT value FROM counters WHERE name = 'change'")) + 1
    txn.execute("UPDATE lccurl SET state = ?, change_number = ? WHERE urlkey = ?", [DELETED, number, key])
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [number])


def test_pages_that_its_token_is_not_for(lcc: Lcc, folder: Path) -> None:
    text = lcc.config_path.read_text()
    lcc.config_path.write_text(text.replace("[search]\n", '[search]\ntoken_file = "token"\n'))
    file = lcc.folder / "home" / "token"
    own, others = ({row.pid for row in rows(lcc)}, {4711})
    for pids, wrong in ((own, set()), (others, {"surplus"})):
        (added,) = lcc.rows("user", "add", "search", *(word for pid in pids for word in ("--provider", str(pid))))
        file.write_text(f"{added['token']}\n")
        assert {kind for kind, _ in faults(lcc)} == wrong
    file.write_text("1-nothing\n")
    with pytest.raises(Failed, match="token_file: this token is not known"):
        faults(lcc)


def test_an_index_that_the_system_refuses(lcc: Lcc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> str:
        raise PermissionError(13, "Permission denied", "meta.json")

    monkeypatch.setattr("lcc.search.checksums.damage", refused)
    with pytest.raises(Failed, match=r"cannot read the index of the search: .*Permission denied"):
        faults(lcc)


def test_what_is_left_of_former_indexes(lcc: Lcc, folder: Path) -> None:
    for name in ("index.old", "index.damaged"):
        shutil.copytree(folder, folder.with_name(name))
    old, kept = beside_index(load_config(lcc.config_path))
    assert old.kind == kept.kind == "stray" and "MiB of a former index" in old.text
    assert "when it starts" in old.text and "index.damaged: " in kept.text


def test_an_index_that_is_being_built_lacks_nothing(lcc: Lcc, folder: Path) -> None:
    index = TextIndex(folder, 16 << 20)
    index.add([RemovedPage(row.key.hex()) for row in rows(lcc)])
    index.commit(IndexState("", 2))
    index.close()
    assert faults(lcc) == []


def test_fsck_finds_and_repairs(lcc: Lcc, folder: Path) -> None:
    content = lcc.folder / "home" / "content"
    (content / "attempts").mkdir(parents=True)
    for name, text in (("counter", "100\n"), ("synced", "1 running x 0\n"), ("mark", "1 x\n")):
        (content / name).write_text(text)
    change(folder, RemovedPage(rows(lcc)[0].key.hex()))
    shutil.copytree(folder, folder.with_name("index.old"))
    said = lcc.admin("fsck", "--quick", code=1).stdout
    assert "lcc-admin search rebuild" in said and "MiB of a former index; lcc-search removes it" in said
    for file in folder.glob("*.store"):
        # A new file: the old one is mapped by an index of this process.
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data[:-1])
    *findings, summary = lcc.rows("fsck", "--quick", "--repair")
    (finding,) = (each for each in findings if each["kind"] == "index")
    assert "damaged" in finding["path"] and finding["done"] == "ordered"
    assert summary["summary"]["found"]["index"] == 1 and (folder.parent / "rebuild").exists()


def test_what_the_check_says(lcc: Lcc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "search" not in lcc.admin("check").stdout
    monkeypatch.setattr("lcc.admin.setup.role_checks.find_spec", lambda name: None)
    monkeypatch.setattr("lcc.admin.setup.role_checks.shutil.which", lambda name: None)
    said = lcc.admin("check").stdout
    assert all(name in said for name in ("tantivy", "py3langid", "pdftotext"))


def searched(lcc: Lcc, url: str) -> Any:
    (answer,) = lcc.rows("why", url)
    return answer["providers"][0]["views"][0]["cached"].get("search")


def damaged(self: TextIndex, key: str) -> None:
    raise IndexDamaged("bad block")


def test_why_a_page_is_not_found(lcc: Lcc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lcc.admin("provider", "add", "--root", "http://www.example.org/")
    change(folder, *(RemovedPage(row.key.hex()) for row in rows(lcc)))
    lcc.write(name_truly)
    first, second, third, fourth, fifth, image = sorted(rows(lcc), key=lambda row: row.change)
    changes = {row: attrs.evolve(indexed(row.key.hex(), row.change), text="") for row in (second, third, fourth)}
    change(
        folder,
        indexed(first.key.hex(), first.change),
        attrs.evolve(changes[second], fault="pdftotext took too long"),
        attrs.evolve(changes[third], hidden=True),
        attrs.evolve(changes[fourth], missing=True),
    )
    assert searched(lcc, first.curl) == {"found": True, "reason": ""}
    assert f"change {first.change}\n" in (said := lcc.admin("why", first.curl).stdout)
    assert said.rstrip().endswith("found by the search")
    for row, found, reason in (
        (second, True, "only by site, type and date: no text: pdftotext took too long"),
        (third, False, "it asks not to be indexed"),
        (fourth, False, "could not give its content"),
        (fifth, False, "the index lacks it"),
        (image, False, "image/png has no text"),
    ):
        told = searched(lcc, row.curl)
        assert told["found"] is found and reason in told["reason"], row
    assert "not found by the search: image/png has no text" in lcc.admin("why", image.curl).stdout
    # What changes behind the token is not there yet.
    change(folder, token="t.4.0.0")
    assert searched(lcc, fifth.curl)["reason"] == "not yet: the index goes up to change 4"
    lcc.put([{"key": 1, "urlkey": first.key}])
    told = searched(lcc, first.curl)
    assert told == {"found": True, "reason": "as it was at change 1: the index goes up to change 4"}
    text = lcc.config_path.read_text()
    lcc.config_path.write_text(f"{text}page_bytes = 1024\n")
    change(folder, indexed(first.key.hex(), 99))
    lcc.write(set_length, first.key)
    assert searched(lcc, first.curl) == {
        "found": True,
        "reason": "only by its first 1,024 bytes ([search] page_bytes)",
    }
    with monkeypatch.context() as patched:
        # A damage that shows only when a row is read.
        patched.setattr(TextIndex, "standing", damaged)
        assert "bad block (lcc-admin search rebuild)" in searched(lcc, first.curl)["reason"]
    (folder / "meta.json").write_text("{")
    assert "lcc-admin search rebuild" in searched(lcc, first.curl)["reason"]
    (folder / "meta.json").unlink()
    assert "is lcc-search running" in searched(lcc, first.curl)["reason"]
    lcc.config_path.write_text(text.partition("[search]")[0])
    assert searched(lcc, first.curl) is None


def name_truly(txn: Txn) -> None:
    for key, curl, mimetype in txn.query("SELECT urlkey, curl, mimetype FROM lccurl"):
        txn.execute("UPDATE lccurl SET urlkey = ? WHERE urlkey = ?", [url_key(1, curl, mimetype), key])


def set_length(txn: Txn, key: bytes) -> None:
    txn.execute("UPDATE lccurl SET len = 1025 WHERE urlkey = ?", [key])
