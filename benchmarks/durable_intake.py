"""How fast URLs are taken in durably: from the provider's first byte to ``set_accepted``, of which some are known.

``python benchmarks/durable_intake.py [--runs 5] [--urls 400000] [--set-urls 10000] [--providers 4] [--known 0.45]
[--sqlite]``

Real ``twistd lcc-uns`` and ``lcc-qm`` on a private MariaDB whose commits are synced. Each provider sends its
sets one after the other, and waits for each answer. That part of the URLs is in the cache already, with the
same md5, length and time; the others are new. No robot runs. The time runs from when the first set begins until
the last is accepted *and* all are in the queue: while the queue manager is busy a UNS accepts what it has
synced in its spool, which is durable, too, but is not all of the work. At the end the tables are looked at:
what is new is queued, what is known is not, and was confirmed.

Nobody else's figure is taken in the same run; URLFrontier, for comparison, says of itself 56,000 to 63,000 a
second, on 20 cores and not synced.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cache_fill import ROWS_AT_ONCE, cache_row
from common import argument_parser, cpu_seconds_of, free_port, peak_memory_bytes, scratch, table
from intake_provider import page, told
from queue_fill import note_chores_done, opened
from rows import Row, add_options, at_least, give

from lcc.testing.mariadb import PrivateMariaDb

BIN = Path(sys.executable).parent
ROLES = ("uns", "qm")
GOAL_URLS_PER_SECOND = 55_000


class Intake:
    """One UNS and one queue manager on a new database, with providers whose cache is partly filled."""

    def __init__(self, work: Path, url: str, options: argparse.Namespace) -> None:
        self.work = work
        self.port = free_port()
        self.url = url
        self.options = options
        self.each = options.urls // options.providers // options.set_urls * options.set_urls
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        work.mkdir()
        self.config = work / "lcc.toml"
        self.config.write_text(f'[database]\nurl = "{url}"\n[uns]\nlisten = "tcp:{self.port}:interface=127.0.0.1"\n')
        self._admin("init")
        self.accounts = []
        for number in range(options.providers):
            root = f"http://s{number}.example/"
            added = self._admin("provider", "add", "--root", root, "--json")
            self.accounts.append({**json.loads(added), "root": root})
        self._fill()
        note_chores_done(url, work / "lcc-home")

    def _admin(self, *arguments: str) -> str:
        command = [str(BIN / "lcc-admin"), "--config", str(self.config), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def is_known(self, number: int) -> bool:
        """This page is in the cache."""
        return number * self.options.known % 1 + self.options.known >= 1

    def _fill(self) -> None:
        rows = []
        for account in self.accounts:
            for number in filter(self.is_known, range(self.each)):
                md5, length, mtime = told(number)
                rows.append(
                    cache_row(account["pid"], account["root"] + page(number), len(rows) + 1)
                    | {"told_md5": md5, "told_len": length, "told_mtime": mtime, "confirmed_time": 1}
                )
        self.known = len(rows)
        rows.sort(key=lambda row: bytes(row["urlkey"]))
        database = opened(self.url, self.work / "lcc-home")
        for first in range(0, len(rows), ROWS_AT_ONCE):
            some = [tuple(row.values()) for row in rows[first : first + ROWS_AT_ONCE]]
            database.write(lambda txn, some=some: txn.insert("lccurl", list(rows[0]), some))
        database.write(
            lambda txn: txn.upsert(
                "counters", ("name", "value"), [("change", len(rows)), ("batch", len(rows))], ("name",)
            )
        )
        database.close()

    def run(self, server: int | None) -> dict[str, Any]:
        """Take all sets in.

        :param server: process id of the database server.
        """
        for role in ROLES:
            with (self.work / f"{role}.log").open("wb") as log:
                command = [str(BIN / "twistd"), "-n", f"lcc-{role}", "--config", str(self.config)]
                self.processes[role] = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            time.sleep(4)
            pids = {role: process.pid for role, process in self.processes.items()}
            if server is not None:
                pids["mariadbd"] = server
            before = {name: cpu_seconds_of(pid) for name, pid in pids.items()}
            (self.work / "accounts.json").write_text(json.dumps(self.accounts))
            sending = subprocess.run(
                [
                    *(sys.executable, str(Path(__file__).with_name("intake_provider.py")), str(self.port)),
                    *(str(self.work / "accounts.json"), str(self.each), str(self.options.set_urls)),
                ],
                check=True,
                capture_output=True,
                text=True,
            )
            sent = json.loads(sending.stdout)
            urls = self.each * len(self.accounts)
            queued = self._wait_until_queued(urls // self.options.set_urls)
            found = {
                f"cpu_us_{name}": (cpu_seconds_of(pid) - before[name]) * 1e6 / urls for name, pid in pids.items()
            }
            self._check(urls)
            return {
                **found,
                "cpu_us_provider": sent["cpu_seconds"] * 1e6 / urls,
                "rate": urls / (max(queued, sent["ended"]) - sent["begun"]),
                "rate_accepted": urls / (sent["ended"] - sent["begun"]),
                "peak_mb_uns": peak_memory_bytes(pids["uns"]) / 1e6,
                "peak_mb_qm": peak_memory_bytes(pids["qm"]) / 1e6,
            }
        finally:
            for process in self.processes.values():
                process.terminate()
            for process in self.processes.values():
                process.wait()

    def _wait_until_queued(self, sets: int) -> float:
        """Wait until all sets are in the queue; gives when that was."""
        database = opened(self.url, self.work / "lcc-home")
        try:
            while database.interact(lambda txn: txn.value("SELECT MAX(last_number) FROM setspos", (), 0)) < sets:
                time.sleep(0.02)
            return time.monotonic()
        finally:
            database.close()

    def _check(self, urls: int) -> None:
        database = opened(self.url, self.work / "lcc-home")
        queued = database.interact(lambda txn: txn.value("SELECT COUNT(*) FROM qdb"))
        confirmed = database.interact(lambda txn: txn.value("SELECT COUNT(*) FROM lccurl WHERE confirmed_time > 1"))
        database.close()
        if (queued, confirmed) != (urls - self.known, self.known):
            raise SystemExit(f"{queued} queued and {confirmed} confirmed of {urls - self.known} and {self.known}")


def main() -> None:
    """Measure."""
    parser = argument_parser(__doc__)
    parser.add_argument("--urls", type=int, default=400_000)
    parser.add_argument("--set-urls", type=int, default=10_000)
    parser.add_argument("--providers", type=int, default=4)
    parser.add_argument("--known", type=float, default=0.45)
    parser.add_argument("--sqlite", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    rounds = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
        for number in range(options.runs):
            url = f"sqlite:intake{number}.db" if server is None else server.new_database()
            process = None if server is None else server.process
            rounds.append(Intake(folder / str(number), url, options).run(process.pid if process else None))
            print({name: round(value, 1) for name, value in rounds[-1].items()}, file=sys.stderr)
    names = [name for name in rounds[0] if name.startswith("cpu_us_")]
    middle = {name: statistics.median(found[name] for found in rounds) for name in names}
    print(table(["who", "CPU µs a URL"], [[name[7:], f"{value:.1f}"] for name, value in middle.items()]))
    total = sum(middle.values())
    where = "SQLite" if options.sqlite else "MariaDB"
    rows = [
        Row(
            f"durable intake, provider to {what}" + (", SQLite" if options.sqlite else ""),
            "URLs/s",
            [found[rate] for found in rounds],
            goal=None if options.sqlite else at_least(GOAL_URLS_PER_SECOND, of_ratio=False),
            note=f"{where}, {options.known:.0%} known{more}",
        )
        for what, rate, more in (
            ("set_accepted", "rate_accepted", ", from the spool of the UNS where the queue manager cannot follow"),
            ("the queue", "rate", f", {total:.0f} µs of CPU a URL over all processes"),
        )
    ]
    give(options, rows)


if __name__ == "__main__":
    main()
