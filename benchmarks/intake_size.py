"""What it costs to take sets of a certain size in, from the provider to the queue; beside LOAD DATA of the same rows.

``python benchmarks/intake_size.py [--urls 100000] [--runs 5]``

A real ``lcc-uns`` and ``lcc-qm`` on a private MariaDB that syncs each commit.  A provider sends a set with so many
new URLs (or as many sets one after the other as make 20,000 URLs); it is over when all of them are rows of the queue.
CPU is that of both roles and of mariadbd.  Then mariadbd alone loads the very same rows from a file into an empty
copy of the table: nothing parsed, checked, compared or answered.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import argument_parser, cpu_seconds_of, scratch
from lcc_site import PASSWORD, LccSite
from rows import Row, add_options, at_most, give

from lcc.protocols.cp_uns_client import init
from lcc.testing.mariadb import PrivateMariaDb

ROOT = "http://www.site.example/"
URLS_MIN = 20_000
LOOK_SECONDS = 0.02
RUN_SECONDS_MAX = 7200.0


def one_set(first: int, count: int) -> Iterator[bytes]:
    """The set, in pieces."""
    lines = [f'<lococa:set set="partial" urlprefix="{ROOT}">\n']
    for number in range(first, first + count):
        lines.append(
            f'<url c="section{number % 997}/page-{number}.html" m="text/html" md5="{number:032x}"'
            f' len="{1000 + number % 9000}" mtime="{10**9 + number}"/>\n'
        )
        if len(lines) >= 500:
            yield "".join(lines).encode()
            lines.clear()
    lines.append("</lococa:set>\n")
    yield "".join(lines).encode()


def send(port: int, first: int, count: int) -> None:
    """Play the provider.

    :raises SystemExit: the set is not accepted.
    """
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(init(1, PASSWORD).encode())
        answer = b""
        while b"init_accepted>" not in answer:
            answer += connection.recv(65536)
        for piece in one_set(first, count):
            connection.sendall(piece)
        answer = b""
        while b"</lococa:set_result>" not in answer:
            data = connection.recv(65536)
            if not data:
                break
            answer += data
        if b"<set_accepted" not in answer:
            raise SystemExit(f"the set was answered with {answer[-500:]!r}")


def run(folder: Path, server: PrivateMariaDb, url: str, each: int) -> dict[str, float]:
    """One run of the LCC, then LOAD DATA of what it has queued."""
    site = LccSite(folder, url, {"qm": {"queue_rows_max": 50_000_000}}, roles=("uns", "qm"))
    site.add_providers({1: ROOT})
    total = max(each, URLS_MIN) // each * each
    daemon = int((server.folder / "data" / "pid").read_text())
    try:
        site.start()
        send(site.port, 0, 10)
        while site.queued() < 10:
            time.sleep(LOOK_SECONDS)
        begun, cpu, database_cpu = time.monotonic(), sum(site.cpu_seconds().values()), cpu_seconds_of(daemon)
        for first in range(0, total, each):
            send(site.port, 10 + first, each)
        accepted = time.monotonic() - begun
        while site.queued() < total + 10:
            site.check()
            if time.monotonic() - begun > RUN_SECONDS_MAX:
                raise SystemExit(f"only {site.queued()} of {total} URLs are queued")
            time.sleep(LOOK_SECONDS)
        wall = time.monotonic() - begun
        database_cpu = cpu_seconds_of(daemon) - database_cpu
        cpu = sum(site.cpu_seconds().values()) - cpu
        peaks = site.peaks_mb()
    finally:
        site.stop()
    peer = load_data(server, url, daemon)
    return {
        "rate": total / wall,
        "accepted": total / accepted,
        "cpu_us": 1e6 * (cpu + database_cpu) / total,
        "roles_cpu_us": 1e6 * cpu / total,
        "uns_mb": peaks["uns"],
        "qm_mb": peaks["qm"],
        "peer_rate": (total + 10) / peer[0],
        "peer_cpu_us": 1e6 * peer[1] / (total + 10),
    }


def load_data(server: PrivateMariaDb, url: str, daemon: int) -> tuple[float, float]:
    """Seconds and CPU seconds of mariadbd to load what the queue holds into an empty copy of its table."""
    name = url.partition("?")[0].rpartition("/")[2]
    path = server.folder / "data" / f"{name}.rows"
    server.execute(f"SELECT * FROM {name}.qdb ORDER BY urlkey INTO OUTFILE '{path}'")
    server.execute(f"CREATE TABLE {name}.peer LIKE {name}.qdb")
    begun, cpu = time.monotonic(), cpu_seconds_of(daemon)
    server.execute(f"LOAD DATA INFILE '{path}' INTO TABLE {name}.peer")
    taken = time.monotonic() - begun, cpu_seconds_of(daemon) - cpu
    path.unlink()
    server.execute(f"DROP TABLE {name}.peer")
    return taken


def main() -> None:
    """Measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--urls", type=int, default=100_000, help="of a set")
    add_options(parser)
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with (
        scratch() as folder,
        PrivateMariaDb(durable=True, log_mib=1024) as server,
    ):
        for number in range(options.runs):
            runs.append(run(folder / f"lcc{number}", server, server.new_database(), options.urls))
            print(f"run {number + 1}: {runs[-1]}", file=sys.stderr)
    note, peer = f"sets of {options.urls:,} URLs", "LOAD DATA"

    def of(key: str) -> list[float]:
        return [each[key] for each in runs]

    give(
        options,
        [
            Row("provider to queue", "URLs/s", of("rate"), peer, of("peer_rate"), note=note),
            Row(
                "provider to queue, CPU",
                "µs",
                of("cpu_us"),
                peer,
                of("peer_cpu_us"),
                note=f"with the database; {note}",
            ),
            Row("provider to queue, CPU of UNS and QM", "µs", of("roles_cpu_us"), note=note),
            Row("provider to set_accepted", "URLs/s", of("accepted"), note=note),
            Row("peak memory of the UNS, taking in", "MB", of("uns_mb"), goal=at_most(60), peak=True, note=note),
            Row("peak memory of the QM, taking in", "MB", of("qm_mb"), goal=at_most(150), peak=True, note=note),
        ],
    )


if __name__ == "__main__":
    main()
