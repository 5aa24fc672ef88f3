"""A whole LCC made of real processes, for tests that kill them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
from click.testing import CliRunner

from lcc.admin.cli import main
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS, wait_for

from .starting import Process, Start, plainly

BIN = Path(sys.executable).parent
ROLES = ("uns", "qm", "botm", "bot")


# So many requests may killed robots have made whose results are lost: results gather for 25 ms.
IN_HAND = 8


class OriginServer:
    """The content provider's web server (:mod:`origin`) as a process of its own.

    :param where: stands before its command; the ``address`` is that of this place.
    """

    def __init__(
        self, root: Path, log: Path, delay_ms: float, where: Sequence[str] = (), address: str = "127.0.0.1"
    ) -> None:
        self.root, self.log, self.address = root, log, address
        script = Path(__file__).with_name("origin.py")
        self.process = subprocess.Popen(
            [*where, sys.executable, str(script), str(root), str(log), str(delay_ms), address],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def url(self, provider: str) -> str:
        """The root URL of a provider."""
        return f"http://{self.address}:{self.port}/{provider}/"

    def requests(self) -> list[dict[str, Any]]:
        """What was asked for, in order."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def assert_each_once(self, paths: set[str], killed_after: int) -> None:
        """Each page was asked for, and once, but for what robots had in hand when they were killed.

        :param killed_after: so many requests had been made when they were.
        """
        asked = [request["path"] for request in self.requests()]
        before, after = asked[:killed_after], asked[killed_after:]
        assert set(asked) == paths
        assert len(set(before)) == len(before) and len(set(after)) == len(after), asked
        again = set(before) & set(after)
        assert again <= set(before[-IN_HAND:]), f"{again} were not in hand"

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@attrs.define
class Site:
    """One registered provider of a test."""

    pid: int
    password: str
    name: str
    folder: Path
    url: str
    state: Path


class System:
    """An LCC in a home folder, its roles as ``twistd`` processes.

    :param origin: the providers' web server; None: it is no business of this class.
    :param extra: more tables of the configuration.
    :param settings: more lines of the configuration: by table, those outside of all tables by ''.
    :ivar how: processes are started.
    """

    how: Start = staticmethod(plainly)

    def __init__(
        self,
        folder: Path,
        origin: OriginServer | None,
        database_url: str | None,
        extra: str = "",
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        self._origin = origin
        self.port = free_port()
        self.config = self.admin_config = folder / "lcc.toml"
        database = (f'url = "{database_url}"\n' if database_url else "") + settings.get("database", "")
        self.config.write_text(
            f'home = "home"\nmimetypes = ["text/*", "image/*", "application/*"]\n{settings.get("", "")}'
            f"[database]\n{database}"
            f'[uns]\nlisten = "tcp:{self.port}:interface=127.0.0.1"\nanswer_timeout = 10.0\n{settings.get("uns", "")}'
            f"[bot]\n{settings.get('bot', 'concurrency = 8')}\n{extra}"
        )
        self.processes: dict[str, Process] = {}
        self.environment = dict(os.environ, PYTHONFAULTHANDLER="1")
        self.admin("init")

    @property
    def origin(self) -> OriginServer:
        """The providers' web server."""
        assert self._origin is not None
        return self._origin

    def start(self, *names: str) -> None:
        """Start roles: ``uns``, ``qm``, ``botm``, ``bot``, ``bot2`` …, or ``all`` for the all-in-one."""
        for name in names:
            role = name.rstrip("0123456789")
            plugin = "lcc" if role == "all" else f"lcc-{role}"
            self.start_role(name, plugin, self.config_of(name))

    def start_role(self, name: str, plugin: str, config: Path) -> None:
        """Start a process.

        :param plugin: of ``twistd``.
        """
        command = [str(BIN / "twistd"), "-n", plugin, "--config", str(config)]
        self.processes[name] = self.how(command, self.folder, self.folder / f"{name}.log", self.environment)

    def config_of(self, _name: str) -> Path:
        """The configuration of a process."""
        return self.config

    def kill(self, name: str) -> None:
        """``kill -9``."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self, name: str) -> None:
        """SIGTERM; it must go in order and without complaint."""
        process = self.processes.pop(name)
        process.terminate()
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        log = self.log(name)
        # twistd shuts down, then ends by the signal that it was sent.
        assert code in (0, -signal.SIGTERM), f"{name} ended with {code}: {log[-2000:]}"
        assert "Server Shut Down" in log
        assert "Traceback" not in log and "Unhandled" not in log, f"{name}: {log[-4000:]}"

    def stop_all(self) -> None:
        """End every process that still runs."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes.clear()

    def log(self, name: str) -> str:
        """What the role has logged."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def admin(self, *arguments: str) -> str:
        """``lcc-admin`` in this process, as one of its own takes the machine from the LCC that is waited for.

        :returns: its output.
        """
        result = CliRunner().invoke(main, ["--config", str(self.admin_config), *arguments])
        assert result.exit_code == 0, f"lcc-admin {arguments}: {result.output}{result.exc_info}"
        return result.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What an ``lcc-admin`` listing says, row by row."""
        return [json.loads(line) for line in self.admin(*arguments, "--json").splitlines()]

    def add_site(self, name: str, *options: str) -> Site:
        """Register a provider whose pages are the folder ``name`` of the origin."""
        url = self.origin.url(name)
        out = self.admin("provider", "add", "--root", url, "--allow-private", "--json", *options)
        answer = json.loads(out)
        return Site(
            answer["pid"],
            answer["password"],
            name,
            self.origin.root / name,
            url,
            self.folder / f"{name}.state",
        )

    def publish(
        self, site: Site, *, expect: tuple[int, ...] = (0,), options: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run the provider's tools as the README has them."""
        command = (
            f"set -o pipefail; {BIN}/file2url --find {site.folder} -type f"
            f" | {BIN}/lcccpstate --statefile={site.state} {options}"
            f" | {BIN}/lcccp --uns=127.0.0.1:{self.port} --pid={site.pid} --urlprefix={site.url}"
        )
        result = self.as_provider(site, command)
        assert result.returncode in expect, f"publish: {result.returncode}\n{result.stdout}{result.stderr}"
        return result

    def as_provider(self, site: Site, command: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command with the provider's password."""
        return subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            env=dict(self.environment, LCC_PASSWORD=site.password),
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def publish_when_up(self, site: Site) -> None:
        """Publish; a UNS that is just starting is tried again."""
        wait_for("the set is accepted", lambda: self.publish(site, expect=(0, 4)).returncode == 0)

    def start_publishing(self, site: Site) -> subprocess.Popen[bytes]:
        """Publish in the background."""
        command = (
            f"{BIN}/file2url --find {site.folder} -type f | {BIN}/lcccpstate --statefile={site.state}"
            f" | {BIN}/lcccp --uns=127.0.0.1:{self.port} --pid={site.pid} --urlprefix={site.url}"
        )
        return subprocess.Popen(["bash", "-c", command], env=dict(self.environment, LCC_PASSWORD=site.password))

    def cached(self, site: Site) -> dict[str, dict[str, Any]]:
        """The cached rows of a site by their path below it."""
        rows = self.rows("urls", "--provider", str(site.pid))
        return {row["curl"].removeprefix(site.url): row for row in rows if row["state"] == "cached"}

    def wait_cached(self, site: Site) -> dict[str, dict[str, Any]]:
        """Wait until the cache holds exactly the site's files, and check each one, content included."""
        expected = dict(files_of(site.folder))

        def complete() -> dict[str, dict[str, Any]] | None:
            rows = self.cached(site)
            same = rows.keys() == expected.keys() and all(rows[p]["md5"] == md5 for p, md5 in expected.items())
            return rows if same else None

        rows = wait_for(f"all of {site.name} is cached", complete) if expected else {}
        for path, row in rows.items():
            assert hashlib.md5(Path(row["path"]).read_bytes()).hexdigest() == expected[path]
        return dict(rows)

    def assert_serial(self) -> None:
        """Never were two requests of one provider being answered at once."""
        overlapping = [request for request in self.origin.requests() if request["active"] > 1]
        assert not overlapping, overlapping[:5]


def files_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Each file below the folder: path and md5."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), hashlib.md5(path.read_bytes()).hexdigest()
