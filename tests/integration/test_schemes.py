"""A whole LCC fetches ftp and file, and finger by the plugin that doc/fetchers.md shows."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcc.fetchers.registry import installed_plugins, schemes_fetched
from tests.support.processes.system import BIN, OriginServer, System
from tests.support.servers.finger import answer_for, finger_server, write_plugin
from tests.support.servers.vsftpd import PrivateVsftpd
from tests.support.waiting import wait_for


@pytest.fixture
def system(tmp_path: Path, origin: OriginServer) -> Iterator[System]:
    """An LCC with a plugin of a third party, and a folder that may be read."""
    write_plugin(tmp_path / "theirs")
    (tmp_path / "pages").mkdir()
    folder = tmp_path / "lcc"
    folder.mkdir()
    extra = f'file_folders = ["{tmp_path}/pages"]\ncontact = "bot@lcc.example"\nkeepalive = 200\n'
    system = System(folder, origin, None, extra=extra)
    system.environment["PYTHONPATH"] = str(tmp_path / "theirs")
    yield system
    system.stop_all()


def admin(system: System, *arguments: str, expect: int = 0, plugin: bool = True) -> str:
    """``lcc-admin`` with the plugin on its path, or without."""
    done = subprocess.run(
        [BIN / "lcc-admin", "--config", system.config, *arguments],
        capture_output=True,
        text=True,
        env=system.environment if plugin else dict(os.environ),
        timeout=120,
        check=False,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


class Provider:
    """One that publishes a folder's files under a root of any scheme."""

    def __init__(self, system: System, root: str, folder: Path) -> None:
        self.system, self.root, self.folder = system, root, folder
        answer = json.loads(admin(system, "provider", "add", "--root", root, "--allow-private", "--json"))
        self.pid, self._password = answer["pid"], answer["password"]

    def publish(self) -> None:
        """With the provider's tools."""
        state = self.system.folder / f"{self.pid}.state"
        command = (
            f"set -o pipefail; {BIN}/file2url --mimetype text/plain --find {self.folder} -type f"
            f" | {BIN}/lcccpstate --statefile={state}"
            f" | {BIN}/lcccp --uns=127.0.0.1:{self.system.port} --pid={self.pid} --urlprefix={self.root}"
        )
        environment = dict(self.system.environment, LCC_PASSWORD=self._password)

        def accepted() -> bool:
            done = subprocess.run(
                ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60
            )
            assert done.returncode in (0, 4), done.stdout + done.stderr  # 4: the UNS is just starting
            return done.returncode == 0

        wait_for("the set is accepted", accepted)

    def tell(self, element: str) -> None:
        """Tell one element, with nothing remembered."""
        command = (
            f"printf '%s' '{element}' | {BIN}/lcccpstate --no-end-mark --statefile={self.system.folder}/new.state"
            f" | {BIN}/lcccp --uns=127.0.0.1:{self.system.port} --pid={self.pid} --urlprefix={self.root}"
        )
        (self.system.folder / "new.state").unlink(missing_ok=True)
        environment = dict(self.system.environment, LCC_PASSWORD=self._password)
        subprocess.run(["bash", "-c", command], env=environment, timeout=60, check=True, capture_output=True)

    def rows(self) -> dict[str, dict[str, Any]]:
        """What is cached, by name."""
        lines = admin(self.system, "urls", "--provider", str(self.pid), "--json").splitlines()
        rows = [row for row in map(json.loads, lines) if row.get("state") == "cached"]
        return {row["curl"].removeprefix(self.root): row for row in rows}

    def wait_cached(self) -> dict[str, dict[str, Any]]:
        """Wait until the cache has exactly the folder's files, and its content is theirs."""
        files = {path.name: path.read_bytes() for path in self.folder.iterdir()}

        def complete() -> dict[str, dict[str, Any]] | None:
            rows = self.rows()
            hashes = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
            return rows if {name: row["md5"] for name, row in rows.items()} == hashes else None

        rows: dict[str, dict[str, Any]] = wait_for(f"{self.root} is cached", complete)
        return rows


def test_every_scheme_is_published_fetched_and_confirmed(system: System, tmp_path: Path) -> None:
    system.start("all")
    with PrivateVsftpd() as ftp, finger_server() as finger_port:
        for name in ("a.txt", "b.txt"):
            ftp.put(f"pub/{name}", name.encode() * 50_000, modified=1_700_000_000)
            (tmp_path / "pages" / name).write_bytes(name.encode() * 100_000)
        users = tmp_path / "users"
        users.mkdir()
        for user in ("anne", "bert"):
            (users / user).write_bytes(answer_for(user))
        providers = [
            Provider(system, f"{ftp.base}/pub/", ftp.root / "pub"),
            Provider(system, f"file://{tmp_path}/pages/", tmp_path / "pages"),
            Provider(system, f"finger://127.0.0.1:{finger_port}/", users),
        ]
        for provider in providers:
            provider.publish()
        of_ftp, of_file, of_finger = [provider.wait_cached() for provider in providers]
        assert of_ftp["a.txt"]["mtime"] == 1_700_000_000
        assert of_file["a.txt"]["len"] == 500_000
        assert of_finger["anne"]["mimetype"] == "text/plain"

        # Told that it has changed, and it has not: it is asked for, and does not travel.
        downloads, asked = ftp.log().count("OK DOWNLOAD"), ftp.log().count('"MDTM pub/a.txt"')
        before = {provider.pid: provider.rows()["a.txt"] for provider in providers[:2]}
        for provider in providers[:2]:
            provider.tell('<url c="a.txt" m="text/plain" mtime="1700000500"/>')
        wait_for("it was asked for", lambda: ftp.log().count('"MDTM pub/a.txt"') == asked + 1)
        wait_for("the queue is empty", lambda: not admin(system, "queue", "--urls", "--json").strip())
        for provider in providers[:2]:
            now = provider.rows()["a.txt"]
            for field in ("change", "md5", "fetched_fileid"):
                assert now[field] == before[provider.pid][field]

        # What has changed is all that travels.
        ftp.put("pub/b.txt", b"changed", modified=1_700_000_100)
        (tmp_path / "pages" / "b.txt").write_bytes(b"changed")
        for provider in providers[:2]:
            provider.publish()
            provider.wait_cached()
        assert ftp.log().count("OK DOWNLOAD") == downloads + 1
        assert ftp.connections <= 2

        # What is gone and was told so goes; what is gone and was not told is an error with the code of its kind.
        (ftp.root / "pub" / "a.txt").unlink()
        providers[0].publish()
        assert providers[0].wait_cached().keys() == {"b.txt"}
    system.stop("all")


def test_a_root_admits_only_what_can_be_fetched(system: System) -> None:
    add = ("provider", "add", "--root")
    text = admin(system, *add, "finger://h/", plugin=False, expect=2)
    ours = schemes_fetched(())
    assert f"no fetcher that is installed here fetches finger; there are {', '.join(ours)}" in " ".join(text.split())
    admin(system, *add, "finger://h/")
    admin(system, *add, "http://h/", "--root", "ftp://h/pub/", plugin=False)
    text = admin(system, "provider", "set", "2", "--root", "wais://h/", expect=2)
    assert ", ".join(sorted([*ours, "finger"])) in " ".join(text.split())
    # A provider from the time when the plugin was there is told of.
    text = admin(system, "check", plugin=False, expect=1)
    assert "provider 1: its root finger://h/: no fetcher that is installed here fetches finger" in text
    assert "provider 2" not in text
    admin(system, "check")


def test_choosing_fetchers(system: System) -> None:
    text = system.config.read_text()
    system.config.write_text(text + 'fetchers = ["http", "fingr"]\n')
    answer = admin(system, "check", expect=1)
    names = sorted([*(plugin.name for plugin in installed_plugins()), "finger"])
    assert f"bot.fetchers: there is no fetcher 'fingr'; there are {', '.join(names)}" in answer
    system.config.write_text(text + 'fetchers = ["http"]\n')
    admin(system, "check")
    answer = admin(system, "fetch", "file:///etc/passwd", expect=1)
    assert "1411 scheme-unsupported" in answer and "there are http, https" in answer
