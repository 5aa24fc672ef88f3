"""What doc/several-machines.md says, done: its files, its commands, its hosts on loopback addresses.

Changed is only what would meet others on this machine: paths, ports, and the database's URL; ``scp`` and ``ssh`` to
another host are what they do there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lcc.storage.disk.content_paths import content_path
from tests.support.ports import free_port, listens
from tests.support.processes.system import BIN, OriginServer
from tests.support.waiting import wait_for

TEXT = (Path(__file__).parents[2] / "doc" / "several-machines.md").read_text(encoding="utf-8")


def blocks_below(heading: str) -> list[tuple[str, str]]:
    """Kind and text of each block of a section."""
    section = TEXT[TEXT.index(f"## {heading}\n") :].split("\n## ")[0]
    return re.findall(r"```(\w*)\n(.*?)```", section, re.DOTALL)


TWO = blocks_below("Two hosts")
SEVERAL = blocks_below("A central BOT-M")
DATABASE = "mysql://lcc:password@10.0.0.1:3306/lcc"


class Hosts:
    """The hosts of a section: a folder and a loopback address each.  If there are several machines, 10.0.0.3 is like
    10.0.0.2."""

    def __init__(self, folder: Path, database_url: str, blocks: list[tuple[str, str]]) -> None:
        self.folder = folder
        self.database_url = database_url
        self.environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")
        self.ports = {port: str(free_port()) for port in ("9000", "9100", "9200", "9300", "9400", "9443")}
        self.commands = [
            (match[1], text) for kind, text in blocks if kind == "sh" and (match := re.match(r"# ([\d.]+)\n", text))
        ]
        if blocks is SEVERAL:
            self.commands += [("10.0.0.3", text) for host, text in self.commands if host == "10.0.0.2"]
        for kind, text in blocks:
            if kind == "toml":
                host, name = re.match(r"# ([\d.]+): (\S+)\n", text).groups()  # type: ignore[union-attr]
                self._write(host, name, text)
                if host == "10.0.0.2" and blocks is SEVERAL:
                    third = (
                        text.replace(host, "10.0.0.3").replace("rack2", "rack3").replace("machine = 2", "machine = 3")
                    )
                    self._write("10.0.0.3", name, third)

    def of(self, host: str) -> Path:
        """Where the commands of a host are run."""
        folder = self.folder / host.rpartition(".")[2]
        folder.mkdir(exist_ok=True)
        return folder

    def _write(self, host: str, name: str, text: str) -> None:
        text = text.replace(DATABASE, self.database_url).replace("10.0.0.", "127.0.0.")
        text = text.replace('"/var/lib/', f'"{self.of(host)}/')
        text = re.sub(r"\b9(?:[01234]00|443)\b", lambda match: self.ports[match[0]], text)
        (self.of(host) / name).write_text(text)

    def run(self, host: str, command: str) -> str:
        """Run these commands there."""
        command = re.sub(
            r"^ssh ([\d.]+) (.*)/var/lib/", lambda m: f"{m[2]}{self.of(m[1])}/", command, flags=re.MULTILINE
        )
        command = re.sub(
            r"^scp (.*) ([\d.]+):/var/lib/", lambda m: f"cp {m[1]} {self.of(m[2])}/", command, flags=re.MULTILINE
        )
        command = command.replace("/var/lib/", f"{self.of(host)}/").replace("10.0.0.", "127.0.0.")
        result = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.of(host),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
        return result.stdout

    def stop(self) -> None:
        """End what was started, by the process ids that it wrote."""
        for file in self.folder.glob("*/*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)


SetUp = Callable[[list[tuple[str, str]]], Hosts]


@pytest.fixture
def set_up(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SetUp]:
    """``set_up(blocks)``: the hosts of a section, with nothing running yet."""
    made: list[Hosts] = []

    def set_up(blocks: list[tuple[str, str]]) -> Hosts:
        folder = tmp_path / "hosts"
        folder.mkdir()
        made.append(Hosts(folder, str(request.getfixturevalue("mariadb").new_database()), blocks))
        return made[0]

    yield set_up
    for hosts in made:
        hosts.stop()


@pytest.mark.long
def test_several_machines(set_up: SetUp, origin: OriginServer) -> None:
    hosts = set_up(SEVERAL)
    for host, commands in hosts.commands:
        hosts.run(host, commands)
    status = wait_for(
        "both machines are connected",
        lambda: (
            (text := hosts.run("10.0.0.3", "lcc-admin status")).count("via central): connected, robots") == 2 and text
        ),
    )
    said = next(text for kind, text in SEVERAL if not kind)
    for line in said.splitlines():
        assert line.removesuffix("…") in status
    bodies: dict[str, str] = {}
    for number in range(8):
        folder = origin.root / f"site{number}"
        folder.mkdir()
        for page in range(4):
            body = f"<p>page {page} of site {number}</p>"
            (folder / f"{page}.html").write_text(body)
            bodies[f"{origin.url(f'site{number}')}{page}.html"] = hashlib.md5(body.encode()).hexdigest()
    for number in range(8):
        root = origin.url(f"site{number}")
        added = json.loads(hosts.run("10.0.0.1", f"lcc-admin provider add --root {root} --allow-private --json"))
        hosts.run(
            "10.0.0.1",
            f"file2url --find {origin.root}/site{number} -type f | lcccpstate --statefile=state{number}"
            f" | LCC_PASSWORD={added['password']} lcccp --tls --ca-file=certificates/ca.pem"
            f" --uns=127.0.0.1:{hosts.ports['9000']} --pid={added['pid']} --urlprefix={root}",
        )
    wait_for("all is fetched", lambda: len(origin.requests()) >= len(bodies))
    rows = wait_for("all is cached", lambda: cached(hosts, len(bodies)))
    machines_read: set[tuple[object, str]] = set()
    for row in rows:
        content = (
            hosts.of(f"10.0.0.{row['fetched_machineid']}") / "lcc" / "content" / content_path(row["fetched_fileid"])
        )
        assert hashlib.md5(content.read_bytes()).hexdigest() == bodies[row["curl"]]
        host = f"10.0.0.{1 + len(machines_read) % 3}"
        if (row["fetched_machineid"], host) not in machines_read:
            machines_read.add((row["fetched_machineid"], host))
            shown = hosts.run(host, f"lcc-admin show --output - {row['curl']}")
            assert hashlib.md5(shown.encode()).hexdigest() == bodies[row["curl"]]
    assert {machine for machine, _ in machines_read} == {row["fetched_machineid"] for row in rows} == {2, 3}
    machines = [(row["curl"].rpartition("/")[0], row["fetched_machineid"]) for row in rows]
    assert len(set(machines)) == 8, "the URLs of a provider were fetched by one machine"
    connections = {(request["provider"], request["port"]) for request in origin.requests()}
    assert len(connections) == 8, "and on one connection"


@pytest.mark.long
def test_two_hosts(set_up: SetUp, origin: OriginServer) -> None:
    hosts = set_up(TWO)
    for host, commands in hosts.commands:
        hosts.run(host, commands)
    (origin.root / "site").mkdir()
    (origin.root / "site" / "page.html").write_text("<p>a page")
    root = origin.url("site")
    added = json.loads(hosts.run("10.0.0.1", f"lcc-admin provider add --root {root} --allow-private --json"))
    pipeline = (
        f"file2url --find {origin.root}/site -type f | lcccpstate --statefile=state"
        f" | LCC_PASSWORD={added['password']} lcccp --tls --ca-file=certificates/ca.pem"
        f" --uns=127.0.0.1:{hosts.ports['9000']} --pid={added['pid']} --urlprefix={root}"
    )
    wait_for("the UNS is up", lambda: listens(int(hosts.ports["9000"]), "127.0.0.1"))
    hosts.run("10.0.0.1", pipeline)
    wait_for("it is cached", lambda: cached(hosts, 1))
    assert hosts.run("10.0.0.2", f"lcc-admin show --output - {root}page.html") == "<p>a page"
    token = json.loads(hosts.run("10.0.0.1", "lcc-admin user add ann --json"))["token"]
    ask = f"curl -sSf --cacert certificates/ca.pem -H 'Authorization: Bearer {token}' https://127.0.0.1:{hosts.ports['9443']}"
    assert json.loads(hosts.run("10.0.0.1", f"{ask}/changes?since=0").splitlines()[0])["curl"] == f"{root}page.html"
    content = f"/content?provider={added['pid']}\\&curl={root}page.html"
    assert hosts.run("10.0.0.1", f"{ask}{content}") == "<p>a page"


def cached(hosts: Hosts, count: int) -> list[dict[str, object]] | None:
    rows = [json.loads(line) for line in hosts.run("10.0.0.2", "lcc-admin urls --json").splitlines()]
    rows = [row for row in rows if row.get("state") == "cached"]
    return rows if len(rows) == count else None
