"""What a package of the cache costs: a tar.gz of it beside ``tar`` and ``gzip -6`` of the same files.

``python benchmarks/package_speed.py [--files N] [--file-bytes N] [--runs N]`` starts a real ``lcc-cu`` over SQLite,
takes a tar.gz, a tar and a WARC from it with ``lcc-export``, in turn with the system's programs, and prints the
medians of CPU seconds (all processes of each side), elapsed seconds and the peak memory of ``lcc-cu``.  It writes
only to a temporary folder.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import time
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

from common import cpu_seconds_of, cpu_seconds_of_children, make_pages, peak_memory_bytes, scratch
from rows import Row, add_options, give

from lcc.config import DatabaseConfig
from lcc.domain.keys import url_key
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.tables.rows import CACHED, empty_cache_row
from lcc.storage.database.transactions import Txn
from lcc.storage.disk.content_paths import content_path

NOW = 1_700_000_000
PROVIDERS = 20
CONTENT_FILE = re.compile(r"\./[0-9a-f]+/[0-9a-f]+/[0-9a-f]{12}")
HEADERS = '["Content-Type","text/html","Server","nginx","Last-Modified","Tue, 14 Nov 2023 22:13:20 GMT"]'


def fill(home: Path, files: int, file_bytes: int) -> None:
    """A cache with these contents, and its database."""
    make_pages(home / "pages", PROVIDERS, files // PROVIDERS, file_bytes)
    rows = []
    for number, page in enumerate(sorted((home / "pages").rglob("*.html")), 1):
        target = home / "content" / content_path(number)
        target.parent.mkdir(parents=True, exist_ok=True)
        page.rename(target)
        pid = int(page.parent.name[1:]) + 1
        curl = f"http://www.p{pid}.example.org/docs/part{number % 7}/{page.name}"
        row = empty_cache_row(url_key(pid, curl, "text/html"), pid) | {
            "curl": curl,
            "mimetype": "text/html",
            "state": CACHED,
            "change_number": number,
            "status": 200,
            "md5": md5(target.read_bytes()).hexdigest(),
            "len": file_bytes,
            "mtime": NOW,
            "headers": HEADERS,
            "fetched_time": NOW,
            "fetched_machineid": 1,
            "fetched_fileid": number,
            "confirmed_time": NOW,
        }
        rows.append(row)
    shutil.rmtree(home / "pages")

    def insert(txn: Txn) -> None:
        txn.insert("lccurl", list(rows[0]), [list(row.values()) for row in rows])
        txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [len(rows)])

    database = BlockingDatabase("sqlite:lcc.db", home, DatabaseConfig(), random=Random())
    database.write(insert)
    database.close()


class Server:
    """``lcc-cu`` as a process."""

    def __init__(self, home: Path) -> None:
        self._config = home / "lcc.toml"
        self._config.write_text(f'home = "{home}"\n')
        code = "from lcc.services.console import cu; cu()"
        with (home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, "--config", str(self._config)], stdout=log, stderr=log
            )
        self.pid = self._process.pid
        while not (home / "cu.sock").exists():
            assert self._process.poll() is None, (home / "log").read_text()
            time.sleep(0.1)

    def export(self, kind: str, output: Path) -> dict[str, float]:
        """Take a package."""
        code = "from lcc.export.cli import main; main()"
        before = cpu_seconds_of(self.pid)
        done = run([sys.executable, "-c", code, "-c", str(self._config), kind, "-o", str(output)])
        made = cpu_seconds_of(self.pid) - before
        return {"server": made, "client": done["cpu"], "cpu": made + done["cpu"], "elapsed": done["elapsed"]}

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def run(command: list[str]) -> dict[str, float]:
    """Run it; its CPU (with all that it started) and elapsed seconds."""
    before, begun = cpu_seconds_of_children(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {"cpu": cpu_seconds_of_children() - before, "elapsed": time.perf_counter() - begun}


def members(package: Path) -> int:
    """How many contents are in it: pages, or the files of the content folder (folders do not count)."""
    listed = subprocess.run(["tar", "-tf", package], capture_output=True, text=True, check=True).stdout.splitlines()
    return sum(name.endswith(".html") or bool(CONTENT_FILE.fullmatch(name)) for name in listed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--file-bytes", type=int, default=10_240)
    add_options(parser)
    options = parser.parse_args()
    with scratch() as temporary:
        home = temporary
        fill(home, options.files, options.file_bytes)
        output = temporary / "out"
        output.mkdir()
        server = Server(home)
        results: dict[str, list[dict[str, Any]]] = {}
        try:
            for _ in range(options.runs):
                peer_package = output / "peer.tar.gz"
                command = f"set -o pipefail; tar -cf - -C {home}/content . | gzip -6 > {peer_package}"
                results.setdefault("tar + gzip -6", []).append(run(["bash", "-c", command]))
                assert members(peer_package) == options.files
                for kind in ("tar.gz", "tar", "warc"):
                    package = output / (f"x.{kind}" if kind != "warc" else "x.warc.gz")
                    results.setdefault(f"lcc-export {kind}", []).append(server.export(kind, package))
                    if kind != "warc":
                        assert members(package) == options.files
            peak = peak_memory_bytes(server.pid) / (1 << 20)
        finally:
            server.stop()
        sizes = {path.name: path.stat().st_size / 1e6 for path in output.iterdir()}
    floor = statistics.median(each["cpu"] for each in results["tar + gzip -6"])
    for name, each in results.items():
        middle = {key: statistics.median(one[key] for one in each) for key in each[0]}
        print(f"{name:18}", "  ".join(f"{key} {value:6.2f} s" for key, value in middle.items()), end="")
        print(f"  {middle['cpu'] / floor:.2f} times the CPU")
    print("sizes in MB:", ", ".join(f"{name} {size:.1f}" for name, size in sizes.items()))
    print(f"peak memory of lcc-cu: {peak:.0f} MiB")
    peer = [each["cpu"] for each in results["tar + gzip -6"]]
    size = f"{options.files:,} pages"
    give(
        options,
        [
            Row(
                "tar.gz of the cache, against tar and gzip",
                "CPU s",
                [each["cpu"] for each in results["lcc-export tar.gz"]],
                "tar and gzip -6",
                peer,
                note=size,
            ),
            Row("peak memory of lcc-cu, packages", "MB", [peak * 1.048576], peak=True, note=size),
        ],
    )


if __name__ == "__main__":
    main()
