"""``lcc-admin search``, and what ``lcc-admin fsck`` says of the index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from lcc.admin.search.comparison import compare_index, index_folder
from lcc.config import load_config
from lcc.search.index import IndexState, TextIndex
from lcc.search.values import IndexedPage, RemovedPage
from lcc.storage.database.rows import DELETED
from lcc.storage.database.transactions import Txn
from lcc.storage.views.selected import Selection, page_by_key
from tests.support.admin import Lcc


def test_rebuild(lcc: Lcc) -> None:
    assert "no search server uses it" in lcc.admin("search", "rebuild").stdout
    assert (lcc.folder / "home" / "search" / "rebuild").exists()


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
    assert "lcc-admin search rebuild" in lcc.admin("fsck", "--quick", code=1).stdout
    for file in folder.glob("*.store"):
        file.write_bytes(file.read_bytes()[:-1])
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
