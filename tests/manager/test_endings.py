"""Endings that earlier runs of the manager have left."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred, succeed

from lcc.model.tasks import JobState
from lcc.numbers import parse_number
from lcc.protocols.jobs import Ending
from lcc.roles.manager.endings import KeptEndings, NewEnding
from lcc.storage.disk.file_system import DISK
from tests.support.databases import result_of


def test_a_commit_whose_job_was_killed_with_its_manager(tmp_path: Path) -> None:
    for name, state in (("5-1-1", JobState.RUNNING), ("6-1-1", JobState.RUNNING), ("6-1-0", JobState.COMPLETED)):
        number, attempt, commit = (parse_number(word, 9) for word in name.split("-"))
        new = NewEnding(Ending(0, number, attempt, state.value, commit), [], None)
        (tmp_path / f"{name}.ending").write_bytes(b"".join(new.checked_pieces()))
    kept = KeptEndings(tmp_path, DISK, lambda function, *args: succeed(function(*args)), lambda: None)
    kept.open()
    assert (len(kept), kept.jobs()) == (4, {(5, 1), (6, 1)})
    text = result_of(Deferred.fromCoroutine(kept.read(4)))
    assert 'id="5"' in text and JobState.TEMPORARY.value in text
