"""``lcc-admin fe``: a front end, and its sub-LCCs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from lcc.admin.context import Admin
from lcc.config import load_config
from lcc.model import Provider
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.place import front_end_place
from lcc.storage.fe.placements import made, put_making
from lcc.storage.fe.sublccs import report_vitals
from lcc.storage.providers.providers import add_provider
from tests.frontend.kit import NOW, vitals
from tests.support.admin import Lcc

UNS = ("--uns", "tcp:127.0.0.1:9000")


class FrontEnd(Lcc):
    """The configuration of a front end; and LCCs beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "sqlite:unused.db")
        self.config_path.write_text('home = "fe"\n[fe]\ndatabase = "sqlite:fe.sqlite"\n')

    def lcc(self, name: str) -> tuple[Lcc, str]:
        """A new LCC, and the URL of its database."""
        folder = self.folder / name
        folder.mkdir()
        lcc = Lcc(folder, "sqlite:lcc.db")
        lcc.admin("init")
        return lcc, f"sqlite:{folder}/home/lcc.db"

    def write(self, function: Any, *arguments: Any) -> Any:
        config = load_config(self.config_path)
        place = front_end_place(config)
        database = BlockingDatabase(place.url, place.home, config.database, random=Random(1), series=place.series)
        try:
            return database.write(function, *arguments)
        finally:
            database.close()


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FrontEnd:
    monkeypatch.setattr(Admin, "now", lambda _: NOW)
    made = FrontEnd(tmp_path)
    made.admin("fe", "init")
    return made


def test_an_lcc_becomes_a_sub_lcc_as_it_is(front: FrontEnd) -> None:
    assert "no sub-LCCs" in front.admin("fe", "list").stdout
    one, url = front.lcc("one")
    one.admin("provider", "add", "--root", "http://a.example/")
    said = front.admin("fe", "add", "one", *UNS, "--database", url).stdout
    assert "provider ids 1-10000000" in said and "machine ids 1-10000" in said
    two, url = front.lcc("two")
    front.admin("fe", "add", "two", *UNS, "--database", url, "--space-max", "1000")
    (added,) = two.rows("provider", "add", "--root", "http://b.example/")
    assert added["pid"] == 10_000_001
    assert one.rows("provider", "add", "--root", "http://c.example/")[0]["pid"] == 2

    for pid, name in ((2, "one"), (10_000_001, "two")):
        assert front.admin("fe", "where", str(pid)).stdout == f"{name}\n"
    assert front.rows("fe", "where", "2") == [{"pid": 2, "sublcc": "one", "epoch": 0, "state": "here"}]
    assert "no sub-LCC" in front.admin("fe", "where", "99000000", code=1).stderr
    front.write(put_making, 2, 2, NOW)
    assert front.admin("fe", "where", "2").stdout == "two (making)\n"

    front.write(report_vitals, "two", vitals(0, files=5, space_bytes=250, time=NOW - 10))
    rows = front.rows("fe", "list")
    assert [(row["name"], row["stale"], row["free"], row["files"]) for row in rows] == [
        ("one", True, None, None),
        ("two", False, 0.75, 5),
    ]
    table = front.admin("fe", "list").stdout
    assert "75 %" in table and "10000001-20000000" in table
    shown = front.admin("fe", "show", "two").stdout
    assert "75 %" in shown and "tcp:127.0.0.1:9000" in shown
    assert front.rows("fe", "show", "two")[0]["placed"] == 1


def test_a_sub_lcc_gets_the_number_and_the_range_that_it_had(front: FrontEnd) -> None:
    """The front end's database was lost; providers have moved here since it was added."""
    one, url = front.lcc("one")
    add = ("fe", "add", "one", *UNS, "--database", url, "--pids", "1-100", "--number", "7")
    front.admin(*add)
    assert front.rows("fe", "show", "one")[0]["number"] == 7
    one.write(_arrives, 4711)
    front.folder.joinpath("fe", "fe.sqlite").unlink()
    front.admin("fe", "init")
    front.admin(*add)
    (_, other), (_, third) = front.lcc("two"), front.lcc("three")
    assert (
        "has the number 7"
        in front.admin("fe", "add", "two", *UNS, "--database", other, "--number", "7", code=1).stderr
    )
    for name, database in (("two", other), ("three", third)):
        front.admin("fe", "add", name, *UNS, "--database", database)
    assert [row["number"] for row in front.rows("fe", "list")] == [7, 8, 9]
    one.write(add_provider, Provider(200, ("http://b.example/",), "h"))
    front.admin("fe", "remove", "one", "--force")
    again = ("fe", "add", "four", *UNS, "--database", url, "--pids", "101-150")
    assert "has providers with ids from 200 to 200" in front.admin(*again, code=1).stderr


def _arrives(txn: Any, pid: int) -> None:
    add_provider(txn, Provider(pid, ("http://a.example/",), "h"))
    txn.execute("INSERT INTO fenced (pid, epoch, state) VALUES (?, 3, 'open')", [pid])
    txn.execute("UPDATE meta SET value = '0' WHERE name = 'pid'")


def test_what_changes_and_goes(front: FrontEnd) -> None:
    _, url = front.lcc("one")
    front.admin("fe", "add", "one", *UNS, "--database", url)
    front.admin(
        "fe", "set", "one", "--uns", "tcp:127.0.0.1:1", "--uns", "tls:h:2", "--no-proxy-protocol", "--files-max", "7"
    )
    (row,) = front.rows("fe", "show", "one")
    assert (row["uns"], row["proxy_protocol"], row["files_max"]) == (["tcp:127.0.0.1:1", "tls:h:2"], False, 7)
    front.admin("fe", "set", "one", "--files-max", "none")
    assert front.admin("fe", "drain", "one").stdout == "one: draining\n"
    assert front.rows("fe", "show", "one")[0]["state"] == "draining"
    front.admin("fe", "drain", "one", "--undo")
    assert front.rows("fe", "show", "one")[0]["state"] == "open"
    front.admin("fe", "remove", "one")
    assert front.rows("fe", "list") == []
    for command in (("show",), ("set",), ("drain",), ("remove",)):
        assert "there is no sub-LCC one" in front.admin("fe", *command, "one", code=1).stderr


def test_one_with_providers_is_not_removed(front: FrontEnd) -> None:
    one, url = front.lcc("one")
    front.admin("fe", "add", "one", *UNS, "--database", url)
    one.admin("provider", "add", "--root", "http://a.example/")
    assert "has providers" in front.admin("fe", "remove", "one", code=1).stderr
    front.admin("fe", "remove", "one", "--force")


def test_one_whose_registered_providers_were_removed_is_removed(front: FrontEnd) -> None:
    one, url = front.lcc("one")
    front.admin("fe", "add", "one", *UNS, "--database", url)
    front.write(put_making, 1, 1, NOW)
    assert "is being registered" in front.admin("fe", "remove", "one", code=1).stderr
    one.admin("provider", "add", "--root", "http://a.example/")
    front.write(made, 1, NOW)
    assert "has providers" in front.admin("fe", "remove", "one", code=1).stderr
    one.write(lambda txn: txn.execute("DELETE FROM pidb"))
    front.admin("fe", "remove", "one")
    assert front.rows("fe", "list") == []


def test_one_that_providers_move_to_is_not_removed(front: FrontEnd) -> None:
    for name in ("one", "two"):
        lcc, url = front.lcc(name)
        front.admin("fe", "add", name, *UNS, "--database", url)
        if name == "one":
            lcc.admin("provider", "add", "--root", "http://a.example/")
    front.admin("move", "1", "--to", "two")
    assert "providers move from or to sub-LCC two" in front.admin("fe", "remove", "two", code=1).stderr
    front.admin("move", "1", "--cancel")
    front.admin("fe", "remove", "two")


def test_what_cannot_be_added(front: FrontEnd, tmp_path: Path) -> None:
    one, url = front.lcc("one")
    one.admin("provider", "add", "--root", "http://a.example/")
    add = ("fe", "add")
    for arguments, said in (
        (("a b", *UNS, "--database", url), "must be 1 to 40"),
        (("one", "--database", url), "--uns is missing"),
        (("one", *UNS), "--database-file is missing"),
        (("one", "--uns", "nonsense", "--database", url), "is no endpoint"),
        (("one", *UNS, "--database", "mysql://u:secret@h/lcc"), "use --database-file"),
        (("one", *UNS, "--database", url, "--pids", "5-1"), "is no range"),
    ):
        result = front.admin(*add, *arguments, code=2)
        assert said in result.stderr and "secret" not in result.stderr.replace("u:secret@h", "")
    assert "must be tls:" in front.admin(*add, "one", "--uns", "tcp:10.0.0.1:9", "--database", url, code=1).stderr
    assert (
        "there is no sqlite:/no/x.db" in front.admin(*add, "x", *UNS, "--database", "sqlite:/no/x.db", code=4).stderr
    )
    # Its provider has an id that is not of this range: nothing is noted.
    assert (
        "its range is 50 to 60" in front.admin(*add, "one", *UNS, "--database", url, "--pids", "50-60", code=1).stderr
    )
    database = BlockingDatabase(url, tmp_path, load_config(front.config_path).database, random=Random(1))
    database.write(
        lambda txn: txn.insert("machines", ["machine", "last_seen", "lease_until", "names_upto"], [(9, 0, 0, 1)])
    )
    database.close()
    said = front.admin(*add, "one", *UNS, "--database", url, "--machines", "1-8", code=1).stderr
    assert "it has machine 9, its range is 1 to 8" in said and "--machines" in said and "[botm] machine" in said
    assert front.rows("fe", "list") == []
    front.admin(*add, "one", *UNS, "--database", url)
    _, other = front.lcc("other")
    assert "exists, or existed" in front.admin(*add, "one", *UNS, "--database", other, code=1).stderr
    said = front.admin(*add, "two", *UNS, "--database", url, code=1).stderr  # in another front end, before
    assert "machine ids 1-10000 (--machines), provider ids up to 10000000 (--pids)" in said


def test_no_password_is_shown(front: FrontEnd, tmp_path: Path) -> None:
    _, url = front.lcc("one")
    front.admin("fe", "add", "one", *UNS, "--database", url)
    (tmp_path / "url").write_text("mysql://lcc:secret@127.0.0.1/lcc\n")
    said = [
        front.admin("fe", "set", "one", "--database-file", str(tmp_path / "url"), *more).output
        for more in ([], ["--json"])
    ]
    said += [
        front.admin("fe", *command, *more).output
        for command in (("list",), ("show", "one"))
        for more in ([], ["--json"])
    ]
    assert not any("secret" in text for text in said)


def test_without_a_front_end(tmp_path: Path) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    assert "fe.database: must be set" in lcc.admin("fe", "list", code=1).stderr
    lcc.config_path.write_text('[fe]\ndatabase = "sqlite:fe.sqlite"\n')
    assert "run lcc-admin fe init" in lcc.admin("fe", "list", code=4).stderr


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[fe]\ndatabase = "postgres:x"', "must begin with sqlite: or mysql:"),
        ('[fe]\ndatabase = "sqlite:lcc.db"', "a database of its own"),
        ('[fe]\nname = "a"', "fe.database must be set"),
        ('[fe]\ndatabase = "sqlite:fe.db"\nname = "a b"', "must be 1 to 40"),
        ('[fe]\ndatabase = "mysql://u:p@10.0.0.1/fe"', "would be reached without TLS"),
        ('[uns]\nproxies = ["10.0.0.300"]', "is no IP address or network"),
    ],
)
def test_faults_of_the_configuration(tmp_path: Path, text: str, fault: str) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    lcc.config_path.write_text(text + "\n")
    assert fault in lcc.admin("check", code=1).stderr


def test_registrations_of_a_front_end(front: FrontEnd) -> None:
    assert "no registrations" in front.admin("register", "list").stdout
    assert "no such registration" in front.admin("register", "remove", "1", code=1).stderr
    assert front.rows("register", "list") == []


def test_a_provider_is_moved(front: FrontEnd) -> None:
    """The commands; what the queue managers do is in test_moves.py."""
    one, url = front.lcc("one")
    front.admin("fe", "add", "one", *UNS, "--database", url)
    front.admin("fe", "add", "two", *UNS, "--database", front.lcc("two")[1])
    for number in range(3):
        one.admin("provider", "add", "--root", f"http://site{number}.example/")
    assert front.admin("moves").stdout == "no moves under way (--all shows those that are done)\n"
    assert "give either --to SUB or --cancel" in front.admin("move", "1", code=2).stderr
    assert "there is no sub-LCC three" in front.admin("move", "1", "--to", "three", code=1).stderr
    assert "is in sub-LCC one already" in front.admin("move", "1", "--to", "one", code=1).stderr
    assert front.admin("move", "1", "--to", "two").stdout == "Provider 1 moves from one to two (move 1).\n"
    assert "is moving already" in front.admin("move", "1", "--to", "two", "--bandwidth", "9", code=1).stderr
    (row,) = front.rows("moves")
    assert (row["pid"], row["source"], row["dest"], row["state"]) == (1, "one", "two", "planned")
    assert front.admin("move", "1", "--cancel").stdout == "Provider 1 stays in sub-LCC one.\n"
    assert "is not moving" in front.admin("move", "1", "--cancel", code=1).stderr
    assert front.rows("moves") == [] and front.rows("moves", "--all")[0]["why"] == "cancelled by an operator"
    front.admin("fe", "drain", "two")
    assert "two is draining" in front.admin("move", "1", "--to", "two", code=1).stderr
    front.admin("fe", "drain", "two", "--undo")
    front.write(report_vitals, "two", vitals(0, time=NOW - 1000))
    assert "has not reported" in front.admin("move", "1", "--to", "two", code=1).stderr
    front.write(report_vitals, "two", vitals(0, time=NOW))

    def has(pid: int, files: int) -> None:
        one.write(lambda txn: txn.execute("INSERT INTO pstats (pid, files_used) VALUES (?, ?)", [pid, files]))

    for pid, files in ((1, 50), (2, 30), (3, 20)):
        has(pid, files)
    # A carrier of another move has no files of its own; it is no provider to be moved.
    one.admin("provider", "add", "--root", "http://content.example/")
    one.write(lambda txn: txn.execute("UPDATE pidb SET password = 'none: move 9 of 1' WHERE pid = 4"))
    assert [row["pid"] for row in front.rows("split", "one", "--to", "two", "--share", "0.5")] == [1]
    assert [row["pid"] for row in front.rows("split", "one", "--to", "two", "--share", "0.5")] == [3]
    assert "no provider of two fits" in front.admin("split", "two", "--to", "one").stdout
