"""The search server as a service: what keeps it from starting, and its place among all roles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from twisted.internet import reactor

from lcc.config import parse_config
from lcc.errors import Busy, ConfigError
from lcc.search.interfaces import REBUILD
from lcc.services import all_roles, search
from lcc.services.process.environment import real_environment
from lcc.transport.links import LockService

LISTEN = 'listen = "tcp:0:interface=127.0.0.1"'


def build(folder: Path, text: str) -> None:
    search.build(parse_config(f'home = "."\n[search]\n{text}', folder), real_environment(reactor))


def test_it_is_one_of_all_roles_when_it_listens(tmp_path: Path) -> None:
    for more, there in (("", False), (LISTEN, True)):
        config = parse_config(f'home = "."\n[search]\n{more}', tmp_path)
        roles = all_roles.build(config, real_environment(reactor))
        assert ("search" in {each.name for each in roles}) == there


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "search.listen: must be set"),
        ('listen = "tcp:9800"', "clear text"),
        (f'{LISTEN}\ncache = "nowhere"', "search.cache"),
        (f'{LISTEN}\ntoken_file = "none"', "search.token_file"),
    ],
)
def test_what_keeps_it_from_starting(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        build(tmp_path, text)


def test_the_extra_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install '.*\[search\]'"):
        build(tmp_path, LISTEN)


def test_an_operator_wants_a_new_index(tmp_path: Path) -> None:
    disk = real_environment(reactor).disk
    assert not search.wants_rebuild(tmp_path / "none", disk) and not search.wants_rebuild(tmp_path, disk)
    (tmp_path / REBUILD).touch()
    assert search.wants_rebuild(tmp_path, disk)


def test_one_process_writes_an_index_also_if_its_homes_differ(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    locks = []
    for home in ("one", "two"):
        text = f'home = "{home}"\n[search]\nfolder = "{folder}"\nopen = true\n{LISTEN}'
        role = search.build(parse_config(text, tmp_path), real_environment(reactor))
        (lock,) = (each for each in role if isinstance(each, LockService))
        locks.append(lock)
    first, second = locks
    first.startService()
    try:
        with pytest.raises(Busy, match=rf"{folder}/lock is locked: .*\(process {os.getpid()}\)"):
            second.startService()
    finally:
        first.stopService()
    second.startService()
    second.stopService()
