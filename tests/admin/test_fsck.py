"""``lcc-admin fsck``: what it finds, and that nothing that happens meanwhile deceives it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lcc.admin.cli import main
from lcc.admin.processes.botm_status import BotmStatus, NotAsked
from lcc.admin.queue import fsck
from lcc.admin.queue.fsck import Check, Finding, Pace
from lcc.model import QueueRow
from lcc.storage.disk.content_paths import content_path
from tests.support.databases import Backend, DirectDatabase, result_of
from tests.support.queue import Queue, notice


class Machine:
    """A content folder, its BOT-M as it is asked, and its queue's store.

    :ivar held, attempts, settled: what the BOT-M says.
    :ivar meanwhile: happens while the BOT-M is being asked, before it answers.
    """

    def __init__(self, folder: Path, queue: Queue) -> None:
        self.folder = folder
        self.queue = queue
        self.held: set[int] = set()
        self.attempts: set[str] = set()
        self.settled = True
        self.running = True
        self.number = 1
        self.meanwhile: Callable[[], object] = lambda: None
        self.asked = 0
        (folder / "attempts").mkdir(parents=True)
        (folder / "counter").write_text("100000\n")
        (folder / "synced").write_text("1 running x 0\n")
        (folder / "mark").write_text("1 x\n")

    def ask(self) -> BotmStatus:
        self.asked += 1
        self.meanwhile()
        if not self.running:
            raise NotAsked("it does not run")
        return BotmStatus(self.number, self.settled, frozenset(self.held), frozenset(self.attempts))

    def write(self, file: int, data: bytes) -> Path:
        path = self.folder / content_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def attempt(self, name: str) -> Path:
        path = self.folder / "attempts" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"part")
        return path

    def fetched(self, row: QueueRow, data: bytes, file: int) -> None:
        """The queue manager records a result."""
        md5 = hashlib.md5(data).hexdigest()
        self.queue.record(self.queue.fetched(row, size_bytes=len(data), md5=md5, machine=1, file=file))

    def fill(self, *files: int) -> None:
        """These files are the content of as many pages."""
        self.queue.send(1, *[notice(f"{file}", "1") for file in files])
        for row in self.queue.rows():
            file = int(row.notice.curl.rpartition("/")[2])
            data = f"content {file}".encode()
            self.write(file, data)
            self.fetched(row, data, file)

    def check(self, quick: bool = False) -> Check:
        return Check(self.folder, 1, self.queue.database.blocking, self.ask, lambda _: None, quick)

    def findings(self, quick: bool = False) -> list[Finding]:
        return list(self.check(quick).run())

    def kinds(self, quick: bool = False) -> list[tuple[str, int | None]]:
        return [(finding.kind, finding.file) for finding in self.findings(quick)]

    def files_to_delete(self) -> None:
        """The BOT-M carries out all delete orders."""
        for number, file in self.queue.database.query("SELECT id, file FROM fsmdb"):
            (self.folder / content_path(file)).unlink(missing_ok=True)
            result_of(self.queue.store.deletes_done([number]))


@pytest.fixture
def machine(backend: Backend) -> Iterator[Machine]:
    database = DirectDatabase(backend.url, backend.home)
    yield Machine(backend.home / "content", Queue(database))
    database.blocking.close()


FILES = (1, 2, 1023, 1024, 5000, 1 << 20, (1 << 30) + 5)


def test_all_is_well(machine: Machine) -> None:
    (machine.folder / "counter").write_text(f"{1 << 31}\n")
    machine.fill(*FILES)
    check = machine.check()
    assert list(check.run()) == []
    assert (check.files, check.rows, machine.asked) == (len(FILES), len(FILES), 0)


def test_each_fault_is_found_where_it_is(machine: Machine) -> None:
    (machine.folder / "counter").write_text(f"{1 << 31}\n")
    machine.fill(*FILES, 7, 8, 9, 10)
    machine.write(2, b"other")
    machine.write(7, b"CONTENT 7")
    (machine.folder / content_path(1023)).unlink()
    (machine.folder / content_path((1 << 30) + 5)).unlink()
    for folder in ((machine.folder / content_path((1 << 30) + 5)).parents)[:2]:
        folder.rmdir()  # a gap: rows without any folder
    machine.write(3, b"nobody's")
    machine.write(9999, b"nobody's")
    machine.attempt("000/00000000000b.1")
    expected = [
        ("leftover", None),
        ("length", 2),
        ("hash", 7),
        ("missing", 1023),
        ("orphan", 3),
        ("orphan", 9999),
        ("missing", (1 << 30) + 5),
    ]
    assert machine.kinds() == expected
    assert ("hash", 7) not in machine.kinds(quick=True) and len(machine.kinds(quick=True)) == len(expected) - 1
    (found,) = [each for each in machine.findings() if each.kind == "hash"]
    assert (found.pid, found.curl, found.path) == (machine.queue.pid, "http://site/7", content_path(7))


def test_what_does_not_belong_there_is_named(machine: Machine) -> None:
    machine.fill(5)
    for name in (
        "README",
        "zzz/000/x",
        "0000000/README",
        "0000000/000/5",
        "attempts/x",
        "attempts/001/000000000008.1",
        "0000000/001/000000000007",
    ):
        path = machine.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (machine.folder / "lost+found").mkdir()
    (machine.folder / "counter.new").touch()
    found = machine.findings()
    assert {finding.kind for finding in found} == {"stray"}
    assert sorted(finding.path for finding in found) == [
        "0000000/000/5",
        "0000000/001/000000000007",
        "0000000/README",
        "README",
        "attempts/001/000000000008.1",
        "attempts/x",
        "zzz",
    ]


def test_a_counter_that_has_gone_back(machine: Machine) -> None:
    machine.fill(5, 99)
    (machine.folder / "counter").write_text("50\n")
    assert machine.kinds() == [("beyond", 99)]
    (machine.folder / "counter").unlink()
    assert machine.kinds() == [("beyond", 5), ("beyond", 99)]


# Beside a working LCC.


def test_a_result_that_is_not_recorded_yet(machine: Machine) -> None:
    machine.write(7, b"new")
    machine.held.add(7)
    machine.attempt("000/000000000008.1")
    machine.attempts.add("attempts/000/000000000008.1")
    assert machine.kinds() == []


def test_a_result_that_is_recorded_while_the_botm_is_asked(machine: Machine) -> None:
    machine.queue.send(1, notice("7", "1"))
    (row,) = machine.queue.rows()
    machine.write(7, b"new")
    machine.meanwhile = lambda: machine.fetched(row, b"new", 7)
    assert machine.kinds() == []
    assert machine.asked == 1


def test_an_unwanted_result_that_is_recorded_meanwhile(machine: Machine) -> None:
    machine.queue.send(1, notice("7", "1"))
    (row,) = machine.queue.rows()
    machine.queue.send(2, notice("7", delete=True))
    machine.write(7, b"new")
    machine.meanwhile = lambda: machine.fetched(row, b"new", 7)
    assert machine.kinds() == []
    assert machine.queue.files_to_delete() == [7]


def test_a_file_that_is_removed_meanwhile(machine: Machine) -> None:
    machine.fill(7)
    machine.queue.send(2, notice("7", delete=True))
    machine.write(9, b"makes it ask")
    listing = machine.check()
    found = listing.run()
    machine.meanwhile = machine.files_to_delete
    assert [(each.kind, each.file) for each in found] == [("orphan", 9)]


class Interrupted:
    """A database where something happens before one of the questions."""

    def __init__(self, machine: Machine, at: int, happen: Callable[[], object]) -> None:
        self.machine = machine
        self.left = at
        self.happen = happen

    def interact(self, function: Any, *args: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.happen()
        return self.machine.queue.database.blocking.interact(function, *args)


@pytest.mark.parametrize("at", range(1, 12))
def test_content_is_replaced_and_deleted_at_any_moment(machine: Machine, at: int) -> None:
    """Whatever is told and fetched between any two steps, nothing is a fault."""
    machine.fill(1, 2, 3, 2000, 4000)
    machine.write(50, b"makes it ask")
    done = []

    def happen() -> None:
        done.append(True)
        queue = machine.queue
        queue.send(2, notice("1", "2"), notice("2", delete=True), notice("2000", "2"), notice("new", "1"))
        for row in queue.rows():
            if not row.delete:
                machine.queue.file += 1
                data, file = b"again", 100 + machine.queue.file
                machine.write(file, data)
                machine.fetched(row, data, file)
        machine.files_to_delete()

    check = machine.check()
    check.database = Interrupted(machine, at, happen)  # type: ignore[assignment]
    assert [(each.kind, each.file) for each in check.run()] == [("orphan", 50)]
    if not done:
        happen()
    assert machine.kinds() == [("orphan", 50)]


def test_content_that_goes_while_other_content_is_read(machine: Machine) -> None:
    machine.fill(1, 2, 3)
    check = machine.check()

    def reading(_: int) -> None:
        if not machine.queue.rows():
            machine.queue.send(2, notice("2", delete=True), notice("3", delete=True), notice("new"))
            machine.files_to_delete()

    check.pace = reading
    assert list(check.run()) == [] and not (machine.folder / content_path(2)).exists()


def test_without_the_botms_word_nothing_is_an_orphan(machine: Machine) -> None:
    machine.write(7, b"x")
    machine.attempt("000/00000000000b.1")
    machine.settled = False
    check = machine.check()
    assert [each.kind for each in check.run()] == ["leftover", "undecided"]
    assert "has not been in contact" in check.trouble
    machine.running = False
    check = machine.check()
    assert [each.kind for each in check.run()] == ["undecided", "undecided"]
    assert check.trouble == "it does not run"


def test_reading_goes_no_faster_than_it_may() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(1000, lambda: now[0], sleep)
    for _ in range(10):
        pace(500)
    assert sum(slept) == pytest.approx(5.0)
    now[0] += 100
    pace(500)
    assert sum(slept) == pytest.approx(5.5)


# The command.


class Command:
    """``lcc-admin fsck`` on a machine's folder."""

    def __init__(self, machine: Machine, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = machine
        self.config = backend.home / "lcc.toml"
        self.config.write_text(f'home = "."\n[database]\nurl = "{backend.url}"\n')
        monkeypatch.setattr(fsck, "ask_botm", lambda config: machine.ask())

    def __call__(self, *arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["--config", str(self.config), "fsck", *arguments])
        assert result.exit_code == code, (result.output, result.exc_info)
        return result

    def json(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("--json", *arguments, code=code).stdout.splitlines()]


@pytest.fixture
def command(machine: Machine, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(machine, backend, monkeypatch)


def test_it_repairs_what_can_be_repaired(machine: Machine, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsck, "ORDER_FILES", 2)
    machine.fill(*range(1, 9))
    for file in (1, 2, 3):
        (machine.folder / content_path(file)).unlink()
    machine.write(4, b"CONTENT 4")
    machine.write(5, b"")
    orphan, leftover = machine.write(50, b"x"), machine.attempt("000/00000000000b.1")
    found = command.json(code=1)
    assert [row["kind"] for row in found[:-1]] == ["leftover", *["missing"] * 3, "hash", "length", "orphan"]
    assert {row["done"] for row in found[:-1]} == {""} and orphan.exists() and leftover.exists()
    assert found[-1]["summary"]["found"]["missing"] == 3 and found[-1]["summary"]["rows"] == 8
    text = command(code=1).stdout
    assert "1 hash, 1 leftover, 1 length, 3 missing, 1 orphan" in text and "--repair" in text
    text = command("--repair").stdout
    assert "5 URLs will be fetched again" in text and "no queue manager is running" in text
    assert not orphan.exists() and not leftover.exists()
    # Until the queue manager has carried it out, it stays as it is; ordered twice is fetched once.
    command("--repair")
    machine.queue.carry_out()
    assert [finding.kind for finding in machine.findings()] == []
    assert len(machine.queue.rows()) == 5
    machine.queue.check_books()
    assert "no fault" in command().stdout


def test_what_cannot_be_repaired_is_said(machine: Machine, command: Command) -> None:
    machine.fill(5)
    machine.write(7, b"x")
    (machine.folder / "README").touch()
    machine.running = False
    text = command("--repair", code=1).stdout
    assert "undecided, because it does not run" in text and (machine.folder / content_path(7)).exists()
    machine.running = True
    command("--repair")
    assert not (machine.folder / content_path(7)).exists() and (machine.folder / "README").exists()
    machine.write(200_000, b"x")
    assert "beyond" in command("--repair", code=1).stdout


def test_a_folder_that_is_not_there_is_not_taken_for_an_empty_one(machine: Machine, command: Command) -> None:
    machine.fill(5)
    (machine.folder / "synced").unlink()
    assert "not mounted" in command("--repair", code=1).stderr
    machine.folder.rename(machine.folder.with_name("elsewhere"))
    assert "no content folder" in command("--repair", code=1).stderr
    command.config.write_text(command.config.read_text() + '[botm]\nserves = "botms"\n')
    assert "central" in command(code=1).stderr


def test_the_folder_of_another_machine_is_left_alone(machine: Machine, command: Command) -> None:
    """By the rows of another machine all files would be missing here."""
    machine.fill(5)
    assert "of machine 1, not of machine 2" in command("--repair", "--machine", "2", code=1).stderr
    machine.running = False
    assert "nothing was repaired" in command("--repair", "--machine", "2", code=1).stderr
    command("--machine", "2", code=1)  # only looks, and decides nothing
    machine.running, machine.number = True, 2
    assert "of machine 2, not of machine 1" in command("--repair", code=1).stderr
    assert (machine.folder / content_path(5)).exists()
    assert machine.queue.database.query("SELECT COUNT(*) FROM damaged") == [(0,)]


def test_what_cannot_be_removed_holds_up_nothing(
    machine: Machine, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.fill(5)
    (machine.folder / content_path(5)).unlink()
    machine.write(3, b"nobody's")
    machine.write(4, b"nobody's")
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name.endswith("3"):
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    found = command.json("--repair", code=1)
    assert [(row["file"], row["done"]) for row in found[:-1]] == [
        (5, "ordered"),
        (3, "not removed: Permission denied"),
        (4, "removed"),
    ]
    assert "not removed" in command("--repair", code=1).stdout


def test_what_was_found_before_the_disk_failed_is_ordered(
    machine: Machine, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.fill(5, 5000)
    (machine.folder / content_path(5)).unlink()

    def failing(check: Check, first: int, upto: int) -> Any:
        if first > 5:
            raise PermissionError(13, "Permission denied", "somewhere")
        return rows(check, first, upto)

    rows = Check._rows
    monkeypatch.setattr(Check, "_rows", failing)
    result = command("--repair", code=1)
    assert "somewhere" in result.stderr
    assert machine.queue.database.query("SELECT file FROM damaged") == [(5,)]
