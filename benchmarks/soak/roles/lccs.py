"""Two sub-LCCs and their front end, all roles; each a process of its own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common import free_port
from lcc_site import BIN, START_SECONDS, LccSite, end

ROLES = ("uns", "qm", "botm", "bot", "cu", "scheduler", "manager", "spider", "push", "search", "web")
"""Of the first sub-LCC; the second has the first five."""
FRONT_ROLES = ("fe-uns", "fe-cu", "fe-rs")
SEGMENT_BYTES = 1 << 20
"""A store of the spider begins a new file then."""
SECOND_PIDS, SECOND_MACHINE = 10_000_001, 10_001
KEPT_SECONDS = 300
"""What may be kept by time is kept so long: a soak is to see it go."""
COMMON: dict[str, dict[str, Any]] = {
    "qm": {"delete_grace": 20, "tombstones_kept": 3600, "housekeeping_period": 60},
    "uns": {"proxies": ["127.0.0.1"], "connections_per_address": 0},
}


class FrontEnd:
    """The front end's processes.

    :ivar port: of its proxy of UNSes.
    :ivar url: of its content user API.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.home = folder / "home"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{(cu := free_port())}"
        self.database = f"sqlite:{folder}/fe.sqlite"
        self.config = folder / "front-end.toml"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        tables: dict[str, dict[str, Any]] = {
            "fe": {"database": self.database},
            "fe_uns": {
                "listen": f"tcp:{self.port}:interface=127.0.0.1",
                "listen_notifiers": "unix:{home}/notify-{role}.sock",
            },
            "cu": {**user_api(cu), "url": f"{self.url}/"},
            "rs": {"listen": f"tcp:{free_port()}:interface=127.0.0.1"},
        }
        lines = ['home = "home"']
        for name, values in tables.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        self.config.write_text("\n".join(lines) + "\n")
        self.admin("fe", "init")

    def admin(self, *arguments: str) -> None:
        """``lcc-admin`` of the front end."""
        admin(self.config, *arguments)

    def add(self, name: str, site: LccSite) -> None:
        """Make this LCC a sub-LCC."""
        url = site.url.replace("sqlite:lcc.db", f"sqlite:{site.home}/lcc.db")
        home = f"unix:{site.home}"
        endpoints = ("--notifiers", f"{home}/notify-{{role}}.sock", "--content", f"{home}/content.sock")
        self.admin("fe", "add", name, "--uns", f"tcp:127.0.0.1:{site.port}", "--database", url, *endpoints)

    def start(self) -> None:
        """Start it."""
        for role in FRONT_ROLES:
            with (self.folder / f"{role}.log").open("ab") as log:
                command = [BIN / "twistd", "-n", f"lcc-{role}", "--config", self.config]
                self.processes[role] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def stop(self) -> None:
        """End it."""
        end(self.processes.values())


def admin(config: Path, *arguments: str) -> str:
    """``lcc-admin``; its output.

    :raises SystemExit: it complains.
    """
    command = [BIN / "lcc-admin", "--config", config, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"lcc-admin {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def user_api(port: int) -> dict[str, Any]:
    """``[cu]`` with a hub."""
    return {
        "listen": f"tcp:{port}:interface=127.0.0.1",
        "without_token": "content",
        "url": f"http://127.0.0.1:{port}/",
        "hub": True,
        "hub_allow_private": True,
    }


class Lccs:
    """All of it.

    :param web: URL prefix of the providers' sites: ``p1/`` … are behind it.
    :param providers: of each sub-LCC.
    """

    def __init__(self, folder: Path, database_url: str | None, web: str, providers: int) -> None:
        self.front = FrontEnd(folder / "front")
        ports = {name: free_port() for name in ("cu", "push", "search", "web")}
        self.urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        watched = {"interval": 0, "bandwidth_bytes": 0}
        one: Mapping[str, Mapping[str, Any]] = {
            **COMMON,
            "fe": {"database": self.front.database, "name": "one", "report_interval": 5},
            "watched": watched,
            "cu": user_api(ports["cu"]),
            "scheduler": {"jobs_kept": KEPT_SECONDS, "items_kept": KEPT_SECONDS},
            "manager": {"user": "root", "scratch": "jobs"},
            "spider": {
                "stores": ["links", "warc", "text"],
                "segment_bytes": SEGMENT_BYTES,
                "told_wait": 5,
                "workers": 1,
            },
            "push": {
                "listen": f"tcp:{ports['push']}:interface=127.0.0.1",
                "url": f"{self.urls['push']}/",
                "unknown_sites": "register",
                "allow_private": True,
                "any_port": True,
                "keep": 3600,
            },
            "search": {"listen": f"tcp:{ports['search']}:interface=127.0.0.1", "open": True, "workers": 1},
            "web": {"listen": f"tcp:{ports['web']}:interface=127.0.0.1"},
        }
        two = {
            **COMMON,
            "fe": {"database": self.front.database, "name": "two", "report_interval": 5},
            "botm": {"machine": SECOND_MACHINE},
        }
        self.subs = {
            "one": LccSite(folder / "one", database_url, one, roles=ROLES),
            "two": LccSite(folder / "two", None, two, roles=ROLES[:5]),
        }
        self.pids = {"one": range(1, providers + 1), "two": range(SECOND_PIDS, SECOND_PIDS + providers)}
        for name, site in self.subs.items():
            self.front.add(name, site)
            site.add_providers({pid: f"{web}p{pid}/" for pid in self.pids[name]})

    def start(self) -> None:
        """Start all; returns when providers are welcome at the front end."""
        for site in self.subs.values():
            site.start()
        self.front.start()
        deadline = time.monotonic() + START_SECONDS
        while not (self.front.home / "cu.sock").exists():
            self.check()
            if time.monotonic() > deadline:
                raise SystemExit("the front end does not start")
            time.sleep(0.1)

    def stop(self) -> None:
        """End all."""
        self.front.stop()
        for site in self.subs.values():
            site.stop()

    def processes(self) -> Iterator[tuple[str, int]]:
        """Name, such as ``one qm``, and id of each."""
        for name, site in self.subs.items():
            for role, process in site.processes.items():
                yield f"{name} {role}", process.pid
        for role, process in self.front.processes.items():
            yield role, process.pid

    def check(self) -> None:
        """See that every role runs.

        :raises SystemExit: one has ended.
        """
        for site in self.subs.values():
            site.check()
        for role, process in self.front.processes.items():
            if process.poll() is not None:
                raise SystemExit(f"{role} ended: {(self.front.folder / f'{role}.log').read_text()[-3000:]}")

    def logs(self) -> Iterator[tuple[str, str]]:
        """Name and log of each process."""
        for name, site in self.subs.items():
            for path in sorted(site.folder.glob("*.log")):
                yield f"{name} {path.stem}", path.read_text(errors="replace")
        for path in sorted(self.front.folder.glob("*.log")):
            yield path.stem, path.read_text(errors="replace")
