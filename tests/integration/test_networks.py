"""Two hosts, and between them a network that delays, loses and reorders packets, and parts them: the kernel's TCP,
each role on its host (:mod:`tests.support.processes.network`)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.processes.apart import Apart
from tests.support.processes.namespace import NoNetwork
from tests.support.processes.network import Network
from tests.support.processes.system import Site
from tests.support.waiting import wait_for

PAGES = 60
POOR = {"delay_ms": 50, "jitter_ms": 30, "loss": 0.01}
"""A way around the world, with packets that overtake each other."""
LOST_SHARE = POOR["loss"] / 2
"""Of the packets, at least."""
FEW_SITES, FEW_ROUNDS = ("one",), 2
SITES, ROUNDS = ("one", "two", "three"), 12
PARTED_SECONDS = (0.5, 3.0, 12.0)


@pytest.fixture
def network() -> Iterator[Network]:
    """Two hosts."""
    try:
        network = Network()
    except NoNetwork as error:
        pytest.skip(str(error))
    yield network
    network.close()


@pytest.fixture
def apart(tmp_path: Path, network: Network) -> Iterator[Apart]:
    """An LCC on two hosts; nothing runs yet."""
    (tmp_path / "www").mkdir()
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = Apart(folder, network, tmp_path / "www")
    yield system
    system.close()


def change(random: Random, site: Site, number: int) -> None:
    """Some pages come, change and go."""
    site.folder.mkdir(exist_ok=True)
    for _ in range(PAGES // 3):
        path = site.folder / f"{random.randrange(PAGES)}.html"
        if path.exists() and random.random() < 0.2:
            path.unlink()
        else:
            path.write_text(f"{number} {random.random()} " + "text " * random.randrange(3000))


def publish(apart: Apart, site: Site) -> None:
    """Until a set was accepted; what was not answered is sent again."""
    wait_for("the set is accepted", lambda: apart.publish(site, expect=(0, 3, 4)).returncode == 0)


def test_hosts_see_each_other_as_the_weather_lets_them(network: Network) -> None:
    """A network that loses nothing would prove nothing."""
    code = (
        "import socket,sys,time\n"
        "s=socket.create_server(('10.77.0.2',7)); print('up',flush=True)\n"
        "while True:\n c,_=s.accept(); c.sendall(c.recv(10)); c.close()"
    )
    asking = (
        "import socket,time\nb=time.monotonic(); s=socket.create_connection(('10.77.0.2',7),1.5); s.sendall(b'x')\n"
        "assert s.recv(1)==b'x'; print(time.monotonic()-b)"
    )
    server = subprocess.Popen([*network.on(1), sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert server.stdout is not None and server.stdout.readline() == b"up\n"

    def ask() -> float:
        command = [*network.on(0), sys.executable, "-c", asking]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return float(done.stdout) if done.returncode == 0 else -1.0

    try:
        assert ask() >= 0
        network.weather(delay_ms=100)
        assert ask() >= 0.4  # there and back, twice
        for parted in ("both", "a", "b"):
            network.weather(parted=parted)
            assert ask() == -1.0
        network.weather(parted="", delay_ms=0)
        assert ask() >= 0
        assert network.weather()["lost"] >= 6
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(
    ("names", "rounds", "worse"),
    [(FEW_SITES, FEW_ROUNDS, 4.0), pytest.param(SITES, ROUNDS, 1.0, marks=pytest.mark.long)],
    ids=["few", "many"],
)
def test_all_promises_hold_in_a_poor_network(
    apart: Apart, network: Network, names: tuple[str, ...], rounds: int, worse: float
) -> None:
    """P1 to P7: sets are submitted, and fetched, while packets are late, lost, out of order, and the hosts are
    parted, both ways or one; in the end what the web server has is cached, and no two pages of a provider were
    fetched at once.

    :param worse: so many times as many packets are lost: among few some have to be.
    """
    random = Random(25)
    sites = [apart.add_site(name) for name in names]
    apart.start("uns", "qm", "botm", "bot")
    network.weather(**POOR | {"loss": POOR["loss"] * worse})
    for number in range(rounds):
        for site in sites:
            change(random, site, number)
            publish(apart, site)
        if number % 2:
            network.weather(parted=random.choice(("both", "a", "b")))
            time.sleep(random.choice(PARTED_SECONDS))
            network.weather(parted="")
    counts = network.weather()
    assert counts["lost"] > counts["carried"] * LOST_SHARE, counts
    for site in sites:
        apart.wait_cached(site)
    apart.assert_serial()
    wait_for("nothing is queued", lambda: not any(row["queued"] for row in apart.rows("queue")))
    assert not any(apart.rows("fsck", "--quick")[-1]["summary"]["found"].values())
    for name in ("bot", "botm", "qm", "uns"):
        apart.stop(name)
