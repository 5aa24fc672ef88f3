"""Metrics, health, supervision and JSON logs of real processes, read over real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lcc.model.metrics import Metric
from tests.support.declared_metrics import PROCESS, declared
from tests.support.ports import free_port
from tests.support.processes.system import BIN, OriginServer, System
from tests.support.waiting import wait_for

from .scraping import OPENMETRICS, Scrape, ask, health

ROLES = ("uns", "qm", "botm", "bot", "cu")
ROBOT = 'a"b\\c} 1'
PAGES = 25


class Supervisor:
    """Hears what one process says, as systemd would.

    :ivar words: all of them so far.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.address = folder / f"{name}.notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.address))
        self.words: list[str] = []
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"", str(self.address))
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while text := self._socket.recv(4096):
            self.words += text.decode().split("\n")

    def hears(self, word: str) -> None:
        """It has said this, or says it soon."""
        wait_for(f"{self.address.stem} says {word}", lambda: word in self.words)


@pytest.fixture
def supervisors(tmp_path: Path) -> Iterator[dict[str, Supervisor]]:
    with ExitStack() as stack:
        yield {role: stack.enter_context(Supervisor(tmp_path, role)) for role in ROLES}


@pytest.fixture
def watched(tmp_path: Path, origin: OriginServer) -> Iterator[System]:
    """An LCC whose roles have metrics ports, and log as JSON."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    port = 'metrics = "unix:{{home}}/{0}-metrics.sock"\n'
    tables = "".join(f"[{role}]\n{port.format(role)}" for role in ("qm", "botm", "cu"))
    tables += 'url = "https://cache.example.org/"\nhub = true\n'  # of [cu]
    extra = f'{tables}[metrics]\nsurvey_interval = 1.0\n[log]\nformat = "json"\n'
    bot = f"concurrency = 8\nname = '{ROBOT}'\n{port.format('bot')}"
    system = System(folder, origin, None, extra, {"uns": port.format("uns"), "bot": bot})
    yield system
    system.stop_all()


def place(system: System, role: str) -> Path:
    return system.folder / "home" / f"{role}-metrics.sock"


def start(system: System, supervisors: dict[str, Supervisor], *roles: str) -> None:
    for role in roles:
        system.environment |= {"NOTIFY_SOCKET": str(supervisors[role].address), "WATCHDOG_USEC": "1500000"}
        system.start(role)


def metrics_of(role: str) -> list[Metric]:
    """Those that a role's process must tell."""
    module = "lcc.roles.cu.metrics" if role == "cu" else f"lcc.roles.{role}.metrics"
    found = declared()
    return [
        *found["lcc.metrics.watched"],
        *[metric for metric in found[module] if metric.name != "lcc_botm_central_machines"],
        *(found["lcc.storage.database.metrics"] if role in ("uns", "qm", "cu") else ()),
    ]


def test_roles_tell_how_they_are(
    watched: System, supervisors: dict[str, Supervisor], lay_out: Callable[[str, int], Path]
) -> None:
    system = watched
    # A robot without a BOT-M is well, but cannot do its work.
    start(system, supervisors, "bot")
    supervisors["bot"].hears("WATCHDOG=1")
    assert health(place(system, "bot"), "/healthz") == (200, {"bot": {}})
    status, faults = health(place(system, "bot"), "/readyz")
    assert status == 503 and faults["bot"].keys() == {"botm"}
    assert faults["bot"]["botm"]["fault"] == "not connected to its BOT-M"
    assert "[bot] connect" in faults["bot"]["botm"]["remedy"]
    supervisors["bot"].hears("STATUS=bot: not connected to its BOT-M")
    assert "READY=1" not in supervisors["bot"].words

    start(system, supervisors, "uns", "qm", "botm", "cu")
    for role in ROLES:
        supervisors[role].hears("READY=1")
        assert health(place(system, role), "/readyz") == (200, {role: {}})

    lay_out("site", PAGES)
    site = system.add_site("site")
    system.publish_when_up(site)
    system.wait_cached(site)
    assert_counted(system, sum(path.stat().st_size for path in site.folder.rglob("*") if path.is_file()))
    assert_complete(system)

    system.kill("qm")
    wait_for("the BOT-M notices", lambda: health(place(system, "botm"), "/readyz")[0] == 503)
    assert health(place(system, "botm"), "/readyz")[1]["botm"].keys() == {"upper"}
    assert health(place(system, "uns"), "/readyz")[0] == 200, "sets are answered from the spool"
    wait_for("the UNS notices", lambda: Scrape(place(system, "uns")).value("lcc_uns_qm_connected") == 0)
    assert Scrape(place(system, "botm")).value("lcc_ready", role="botm") == 0
    supervisors["botm"].hears("STATUS=botm: not connected to the queue manager or central BOT-M")
    for role in ("uns", "botm", "bot", "cu"):
        system.stop(role)
        supervisors[role].hears("STOPPING=1")
        assert supervisors[role].words.count("READY=1") == 1
        assert supervisors[role].words.count("WATCHDOG=1") > 1
    for role in ROLES:
        lines = system.log(role).splitlines()
        assert len(lines) > 3
        assert {json.loads(line)["role"] for line in lines} == {role}


def assert_counted(system: System, content_bytes: int) -> None:
    """Each page was counted once, by everybody it passed."""

    def counted() -> bool:  # a row can be seen a moment before its writer has counted it
        return Scrape(place(system, "qm")).value("lcc_qm_results_total", result="stored") >= PAGES

    wait_for("the results are counted", counted)
    scrapes = {role: Scrape(place(system, role)) for role in ROLES}
    uns, qm, botm, bot = (scrapes[role] for role in ("uns", "qm", "botm", "bot"))
    assert uns.value("lcc_uns_urls_total", result="received") == PAGES
    assert uns.value("lcc_uns_sets_total", result="accepted") == 1
    assert uns.value("lcc_uns_set_bytes_total") > 50 * PAGES
    assert uns.value("lcc_uns_logins_total", result="accepted") == 1
    assert (uns.value("lcc_uns_spool_sets"), uns.value("lcc_uns_spool_oldest_seconds")) == (0, 0)
    assert qm.value("lcc_qm_results_total", result="stored") == PAGES
    assert qm.value("lcc_qm_content_bytes_total") == content_bytes < qm.value("lcc_qm_wire_bytes_total")
    assert qm.value("lcc_qm_orders_sent_total") == PAGES and qm.value("lcc_qm_run") == 1
    assert qm.value("lcc_qm_machine_capacity", machine="1", name="botm") == 8
    assert qm.value("lcc_database_transaction_seconds_count", kind="write") > 0
    assert botm.value("lcc_botm_files_stored_total") == PAGES
    assert botm.value("lcc_botm_files_stored_bytes_total") == content_bytes
    assert botm.value("lcc_botm_robot_capacity", robot=ROBOT) == 8, "a robot's name stays in its place"
    assert bot.value("lcc_bot_fetch_seconds_count", result="stored") == PAGES
    assert bot.value("lcc_bot_fetch_seconds_bucket", result="stored", le="+Inf") == PAGES
    assert bot.value("lcc_bot_content_bytes_total") == content_bytes
    assert bot.value("lcc_bot_wire_bytes_total") == qm.value("lcc_qm_wire_bytes_total")

    def surveyed() -> bool:
        scrape = Scrape(place(system, "qm"), accept=OPENMETRICS)
        return scrape.values("lcc_qm_cached_urls") == [PAGES]

    wait_for("the whole queue was looked at", surveyed)
    qm = Scrape(place(system, "qm"))
    assert qm.value("lcc_qm_cached_bytes") == content_bytes
    assert qm.value("lcc_qm_provider_lag_seconds_bucket", le="+Inf") == 0 == qm.value("lcc_qm_oldest_seconds")


def assert_complete(system: System) -> None:
    """What is declared is told, and nothing else."""
    for role in ROLES:
        for accept in ("", OPENMETRICS):
            scrape = Scrape(place(system, role), accept)
            told = {name.removesuffix("_total") for name in scrape.families}
            told = {name.removesuffix("_info") for name in told if not name.endswith(("_gcount", "_gsum"))}
            expected = {metric.name for metric in metrics_of(role)}
            assert told == expected | {name.removesuffix("_total") for name in PROCESS}, role
            assert scrape.lines < 600
        now, started = time.time(), scrape.value("process_start_time_seconds")
        assert now - 3600 < started < now + 5 and scrape.value("process_resident_memory_bytes") > 1e6


def test_all_roles_in_one_process_behind_a_port_that_systemd_has_opened(
    tmp_path: Path, origin: OriginServer, lay_out: Callable[[str, int], Path]
) -> None:
    folder = tmp_path / "lcc"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ports = [listening.getsockname()[1], free_port()]
        extra = f'[metrics]\nlisten = "tcp:{ports[1]}:interface=127.0.0.1"\n'
        system = System(folder, origin, None, extra)
        text = system.config.read_text().replace(
            f"tcp:{system.port}:interface=127.0.0.1", "systemd:domain=INET:name=providers"
        )
        system.config.write_text(text)
        system.port = ports[0]
        lay_out("site", 3)
        site = system.add_site("site")
        # Who comes before there is a process waits.
        publishing = system.start_publishing(site)
        command = (
            f"exec 3<&{listening.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=providers "
            f"exec {BIN}/twistd -n lcc --config {system.config}"
        )
        with (folder / "all.log").open("ab") as log:
            system.processes["all"] = subprocess.Popen(
                ["bash", "-c", command], cwd=folder, stdout=log, stderr=log, pass_fds=[listening.fileno()]
            )
        try:
            assert publishing.wait(120) == 0
            system.wait_cached(site)
            wait_for("all roles are ready", lambda: health(ports[1], "/readyz")[0] == 200)
            assert health(ports[1], "/readyz")[1].keys() == {
                "qm",
                "botm",
                "bot",
                "cu",
                "uns",
                "scheduler",
                "manager",
                "spider",
            }
            assert_what_is_asked_for(ports[1])
            os.kill(system.processes["all"].pid, signal.SIGTERM)
            system.processes.pop("all").wait(60)
        finally:
            system.stop_all()


def assert_what_is_asked_for(port: int) -> None:
    """The port tells what it is there for, to those who mean it."""
    scrape = Scrape(port, OPENMETRICS)
    assert scrape.value("lcc_port_open", port="uns.listen") == 1
    assert len(scrape.values("lcc_ready")) == 8 and set(scrape.values("lcc_ready")) == {1}
    for role in ("uns", "qm", "cu"):
        assert scrape.values("lcc_database_retries_total", role=role, reason="lost") == [0]
    assert ask(port, "/")[0] == 404 and b"/readyz" in ask(port, "/")[2]
    assert ask(port, "/metrics", "POST")[0] == 405
    status, _, body = ask(port, "/metrics", "HEAD")
    assert (status, body) == (200, b"")
    for host, answered in (("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("evil.example", 421)):
        assert ask(port, "/healthz", Host=host)[0] == answered, host
