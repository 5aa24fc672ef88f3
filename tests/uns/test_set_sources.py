"""A set keeps its source in the spool, in memory and in its file; a set of an older spool is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.logger import LogEvent

from lcc.model import Source
from lcc.roles.uns.delivery import opening
from lcc.storage.disk.spool import Spool


def opened(folder: Path) -> Spool:
    return Spool(folder / "spool", "uns", 1 << 20, lambda: "epoch")


@pytest.mark.parametrize("source", Source)
def test_the_source_survives_a_restart(tmp_path: Path, source: Source) -> None:
    spool = opened(tmp_path)
    assert spool.open() == []
    writer = spool.begin(pid=7, connseq=3, full=False, errors_upto=0, source=source)
    writer.add('<u c="http://a/" m="text/html"/>')
    entry = writer.complete(5)
    assert entry.header.source is source
    assert spool.secure([entry]) == [None]
    [found] = opened(tmp_path).open()
    assert found.header.source is source
    assert opening(found.header).source == str(source.name).lower()


def test_a_told_set_is_spooled_as_ever_and_an_unknown_source_is_damage(
    tmp_path: Path, logged: list[LogEvent]
) -> None:
    spool = opened(tmp_path)
    spool.open()
    entry = spool.begin(pid=7, connseq=3, full=False, errors_upto=0).complete(5)
    assert spool.secure([entry]) == [None]
    assert entry.path is not None
    written = entry.path.read_bytes()
    assert b"source" not in written
    strange = written.replace(b',"count"', b',"source":"dreamt","count"').replace(b" " * 18 + b"\n", b"\n")
    entry.path.write_bytes(strange)
    again = opened(tmp_path)
    assert again.open() == []
    assert "unknown source 'dreamt'" in logged[-1]["why"]
    assert again.damaged_count == 1 and list(again.damage.pids) == [7]
