"""What latency and loss between two hosts cost: pages a second; ``make network``.

The queue is filled before the robot starts.  Measured is from the first request at the web server to the last; the
web server is on the robot's host, the queue manager on the other (:mod:`tests.support.processes.apart`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.processes.apart import Apart
from tests.support.processes.namespace import NoNetwork
from tests.support.processes.network import Network
from tests.support.waiting import wait_for

WEATHERS: tuple[tuple[float, float], ...] = ((0, 0), (5, 0), (25, 0), (50, 0), (100, 0), (25, 0.01), (50, 0.01))
"""Milliseconds each way, and what part of the packets is lost."""
PAGE_BYTES = 5_000


def measure(folder: Path, delay_ms: float, loss: float, providers: int, pages: int) -> float:
    """Pages a second in this weather."""
    network = Network()
    (folder / "www").mkdir()
    (folder / "lcc").mkdir()
    apart = Apart(folder / "lcc", network, folder / "www", answer_ms=0)
    try:
        sites = [apart.add_site(f"p{number}") for number in range(providers)]
        apart.start("uns", "qm", "botm")
        for site in sites:
            site.folder.mkdir()
            for page in range(pages):
                (site.folder / f"{page}.html").write_text(f"{site.name} {page} ".ljust(PAGE_BYTES, "x"))
            apart.publish_when_up(site)
        wait_for("all is queued", lambda: sum(row["queued"] for row in apart.rows("queue")) == providers * pages)
        network.weather(delay_ms=delay_ms, loss=loss)
        apart.start("bot")
        wait_for("all is fetched", lambda: not any(row["queued"] for row in apart.rows("queue")), 600)
        times = [request["time"] for request in apart.origin.requests()]
        assert len(times) == providers * pages
        return len(times) / (max(times) - min(times))
    finally:
        apart.close()
        network.close()


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.latency", description=__doc__)
    parser.add_argument("--providers", type=int, default=20)
    parser.add_argument("--pages", type=int, default=100, help="of each provider")
    options = parser.parse_args()
    print("| each way | lost | pages/s |\n|---|---|---|", flush=True)
    for delay_ms, loss in WEATHERS:
        with tempfile.TemporaryDirectory(prefix="lcc-net-") as name:
            try:
                speed = measure(Path(name), delay_ms, loss, options.providers, options.pages)
            except NoNetwork as error:
                print(error, file=sys.stderr)
                return 1
        print(f"| {delay_ms:g} ms | {loss:.0%} | {speed:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
