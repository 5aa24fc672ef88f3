"""Fixtures: a tree of real HTML, an origin server over it, and a whole LCC on each database."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.front_end import FrontEnd, SubLcc, SubLccs
from tests.support.processes.system import OriginServer, System
from tests.support.small_disk import SmallDisk, may_mount, run_in_namespace, why_no_namespace

DOCUMENTATION = ("/usr/share/doc/python3-doc/html", "/usr/share/doc")
"""Where Debian keeps documentation; ``make system`` installs python3-doc."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """What mounts disks runs where it may."""
    if "small_disk" not in pyfuncitem.fixturenames or may_mount():
        return None
    why = why_no_namespace()
    if why:
        pytest.skip(why)
    run_in_namespace(pyfuncitem.nodeid, pyfuncitem.config.rootpath)
    return True


@pytest.fixture
def small_disk() -> Iterator[Callable[..., SmallDisk]]:
    """``small_disk(size_bytes)``: a file system of that size (:mod:`small_disk`)."""
    disks: list[SmallDisk] = []

    def small_disk(size_bytes: int, files: int = 100_000) -> SmallDisk:
        disks.append(SmallDisk(size_bytes, files))
        return disks[-1]

    yield small_disk
    for disk in disks:
        disk.close()


@pytest.fixture(scope="session")
def documentation() -> list[Path]:
    """At least 1,000 real documentation files, HTML and the text it was made from."""
    found: list[Path] = []
    for root in DOCUMENTATION:
        for pattern in ("*.html", "*.txt", "*.png"):
            found += [path for path in sorted(Path(root).rglob(pattern)) if path.is_file()]
        if len(found) >= 1000:
            return found
    raise AssertionError(f"only {len(found)} documentation files below {DOCUMENTATION}; run 'make system'")


@pytest.fixture
def lay_out(documentation: list[Path], tmp_path: Path) -> Callable[[str, int], Path]:
    """``lay_out(name, count)``: a provider's folder with that many of the documentation's files."""
    taken = 0

    def lay_out(name: str, count: int) -> Path:
        nonlocal taken
        folder = tmp_path / "www" / name
        for number in range(count):
            source = documentation[(taken + number) % len(documentation)]
            target = folder / f"part{number % 7}" / f"{number:04d}-{source.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        taken += count
        return folder

    return lay_out


@pytest.fixture
def answer_ms() -> float:
    """How long the providers' web server takes for a request; modules say others."""
    return 3


@pytest.fixture
def origin(tmp_path: Path, answer_ms: float) -> Iterator[OriginServer]:
    """The providers' web server."""
    (tmp_path / "www").mkdir(exist_ok=True)
    server = OriginServer(tmp_path / "www", tmp_path / "origin.log", answer_ms)
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "mariadb"])
def database_url(request: Any) -> str | None:
    """None for SQLite in the home folder, else the URL of a fresh database of MariaDB, or of a Galera cluster."""
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue(request.param).new_database())


@pytest.fixture
def sub_lccs(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[SubLccs]:
    """A front end, whose database is this one, and two sub-LCCs of which nothing runs yet."""
    front_url = database_url or f"sqlite:{tmp_path}/fe.sqlite"
    one = SubLcc(tmp_path, "one", origin, front_url, 1)
    two = SubLcc(tmp_path, "two", origin, front_url, 10_001)
    made = SubLccs(FrontEnd(tmp_path / "front", front_url), one, two)
    yield made
    for each in made:
        each.stop_all()


@pytest.fixture
def system(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[System]:
    """An LCC that is initialised but of which nothing runs yet."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = System(folder, origin, database_url)
    yield system
    system.stop_all()
