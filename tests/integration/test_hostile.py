"""A whole LCC, real processes, and one web server with all that is hostile in it, beside one that is good."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.hostile.answers import BAD, GOOD, Case
from tests.hostile.endless import BOMBS, ENDLESS
from tests.hostile.names import write_plugin
from tests.hostile.places import PLACES
from tests.hostile.server import CASES, TLS_FAULTS
from tests.support.processes.system import BIN, OriginServer, Site, System
from tests.support.waiting import wait_for

LayOut = Callable[[str, int], Path]
REPOSITORY = Path(__file__).parents[2]
ROLES = ("uns", "qm", "botm", "bot")
GROUPS = 12
"""Providers among which the cases are dealt out."""
SMALL = """
idle_timeout = 2.0
deadline = 6.0
connect_timeout = 3.0
header_bytes_max = 2048
body_bytes_max = 10000
"""
TARPITS = 6
GROWTH_BYTES_MAX = 100_000_000


class HostileServer:
    """:mod:`tests.hostile.server` as a process of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.server", str(folder)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ports: dict[str, int] = json.loads(self.process.stdout.readline())

    def root(self, provider: str) -> str:
        return f"http://127.0.0.1:{self.ports['http']}/{provider}/"

    def in_flight(self) -> list[str]:
        """The cases that are being played now."""
        going: dict[int, str] = {}
        for line in (self.folder / "requests.log").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "begin":
                going[event["number"]] = event["case"]
            else:
                del going[event["number"]]
        return sorted(going.values())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[HostileServer]:
    server = HostileServer(tmp_path / "hostile")
    yield server
    server.stop()


@attrs.frozen
class Provider:
    """A registered provider with its hostile URLs.

    :ivar expected: each URL -> the name of the error that its fetch must end with; empty: content.
    """

    pid: int
    password: str
    expected: dict[str, str]


def make_system(tmp_path: Path, origin: OriginServer, hostile: HostileServer, robot: str) -> System:
    """An LCC whose every URL is tried once; of its robot's configuration this is added."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    extra = f'extra_roots = "{hostile.folder}/authority.pem"\n{robot}\n'
    extra += "[qm]\nattempts_max = 1\nhold_attempts_max = 1\nhold_initial = 0.01\nhold_maximum = 0.01\n"
    return System(folder, origin, None, extra)


def register(system: System, expected: dict[str, str], *options: str) -> Provider:
    """A provider for these URLs, each of which is a root."""
    roots = sorted({url[: url.rindex("/") + 1] for url in expected})
    arguments = [argument for root in roots for argument in ("--root", root)]
    answer = json.loads(system.admin("provider", "add", "--json", *arguments, *options))
    return Provider(answer["pid"], answer["password"], expected)


def publish(system: System, provider: Provider) -> None:
    """Tell of all of its URLs."""
    elements = "".join(f'<url c="{url}" m="text/html"/>\n' for url in provider.expected)
    command = [BIN / "lcccp", f"--uns=127.0.0.1:{system.port}", f"--pid={provider.pid}", "--no-end-mark", "--quiet"]
    done = subprocess.run(
        command,
        input=elements,
        text=True,
        capture_output=True,
        env=dict(system.environment, LCC_PASSWORD=provider.password),
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def found(system: System, providers: list[Provider]) -> dict[str, str]:
    """How each URL of theirs has ended so far; content is what its server sent."""
    ended = {}
    theirs = {url for provider in providers for url in provider.expected}
    for row in system.rows("urls"):
        if row["state"] == "cached" and row["curl"] in theirs:
            content = CASES[row["curl"].rpartition("/")[2]].content
            assert Path(row["path"]).read_bytes() == content
            assert row["md5"] == hashlib.md5(content).hexdigest()
            ended[row["curl"]] = ""
    for row in system.rows("errors"):
        ended[row["url"]] = row["name"]
    return ended


def peak_bytes(process: subprocess.Popen[bytes]) -> int:
    """The most memory that a process ever had."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def small_pages(folder: Path, count: int) -> None:
    """So many pages that no limit of :data:`SMALL` is against."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number}.html").write_text(f"<html>page {number}</html>" * 100)


@pytest.mark.long
def test_every_hostile_origin_ends_with_its_own_error(
    tmp_path: Path, origin: OriginServer, hostile: HostileServer
) -> None:
    system = make_system(tmp_path, origin, hostile, SMALL)
    system.admin_config = system.config.with_name("admin.toml")  # this process does not have the plugin
    shutil.copy(system.config, system.admin_config)
    system.config.write_text(
        system.config.read_text().replace("[bot]\n", '[bot]\nfetchers = ["http-hostile-names"]\n')
    )
    write_plugin(tmp_path / "theirs")
    system.environment["PYTHONPATH"] = f"{tmp_path}/theirs{os.pathsep}{REPOSITORY}"
    providers: list[Provider] = []
    dealt: list[dict[str, str]] = [{} for _ in range(GROUPS)]
    cases = [*BAD, *ENDLESS, CASES["another-type"]]
    cases += [case for case in GOOD if b"Content-Type: application" not in case.sent]  # all are told as text/html
    for number, case in enumerate(sorted(cases, key=lambda case: (case.error, case.name))):
        group = number % GROUPS
        dealt[group][hostile.root(f"p{group}") + case.slug] = case.error
    for expected in dealt:
        providers.append(register(system, expected, "--allow-private"))
    # TLS, and sites that cannot be reached.
    secure = {f"https://127.0.0.1:{hostile.ports[name]}/content-length": TLS_FAULTS[name] for name in TLS_FAULTS}
    port = hostile.ports["certificate"]
    for slug in ("cut-short", "slow-body", "endless-body", "endless-fields"):
        secure[f"https://127.0.0.1:{port}/{slug}"] = CASES[slug].error
    secure[f"http://127.0.0.1:{hostile.ports['closed']}/x"] = "connect-refused"
    secure[f"http://127.0.0.1:{hostile.ports['full']}/x"] = "connect-timeout"
    providers.append(register(system, secure, "--allow-private"))
    # Places that must not be fetched from.
    for private in (False, True):
        places = [place for place in PLACES if place.private is private and not place.odd and len(place.answers) < 2]
        expected = {f"http://{place.host}/{number}": place.error for number, place in enumerate(places)}
        providers.append(register(system, expected, *(["--allow-private"] if private else [])))
    total = sum(len(provider.expected) for provider in providers)
    assert total >= 200
    try:
        system.start(*ROLES)
        small_pages(origin.root / "honest", 10)
        honest = system.add_site("honest")
        system.publish_when_up(honest)
        for provider in providers:
            publish(system, provider)
        small_pages(origin.root / "honest", 50)
        system.publish(honest)
        system.wait_cached(honest)
        wait_for("everything has ended", lambda: system.rows("queue") == [])
        ended = found(system, providers)
        expected = {url: error for provider in providers for url, error in provider.expected.items()}
        assert {url: error for url, error in ended.items() if expected.get(url) != error} == {}
        assert ended.keys() == expected.keys()
        # Nothing of what was broken off is left in the content folder.
        system.admin("fsck")
        system.assert_serial()
        for role in reversed(ROLES):
            system.stop(role)
        wait_for("all connections are gone", lambda: hostile.in_flight() == [])
    finally:
        system.stop_all()


@pytest.mark.long
def test_bombs_and_tarpits_take_bounded_memory_and_no_one_s_place(
    tmp_path: Path, origin: OriginServer, hostile: HostileServer, lay_out: LayOut
) -> None:
    """The limits of every day, but for the deadline: these tarpits would go on for an hour."""
    system = make_system(tmp_path, origin, hostile, "deadline = 3600.0")
    tarpit = "slow-body-until-the-connection-ends"
    tarpits = [register(system, {hostile.root(f"t{n}") + tarpit: ""}, "--allow-private") for n in range(TARPITS)]
    endless: list[Case] = [case for case in ENDLESS if not case.pace_seconds]
    expected = {hostile.root("bombs") + case.slug: case.error for case in (*BOMBS, *endless)}
    bombs = register(system, expected, "--allow-private")
    try:
        system.start(*ROLES)
        lay_out("honest", 10)
        honest: Site = system.add_site("honest")
        system.publish_when_up(honest)
        system.wait_cached(honest)
        before = peak_bytes(system.processes["bot"])

        for provider in tarpits:
            publish(system, provider)
        wait_for("the tarpits hold", lambda: hostile.in_flight() == [tarpit] * TARPITS)
        publish(system, bombs)
        lay_out("honest", 60)
        system.publish(honest)
        # Of eight fetches at once six are held.  The others go on to their end.
        system.wait_cached(honest)
        wait_for("the bombs have gone off", lambda: len(found(system, [bombs])) == len(expected))
        assert found(system, [bombs]) == expected
        assert hostile.in_flight() == [tarpit] * TARPITS
        assert peak_bytes(system.processes["bot"]) - before < GROWTH_BYTES_MAX
        # A robot that is stopped waits for none of them.
        for role in reversed(ROLES):
            system.stop(role)
        wait_for("all connections are gone", lambda: hostile.in_flight() == [])
    finally:
        system.stop_all()
