"""Simulates the queue of a large LCC beside that of a small one, and reckons what ten billion URLs need.

``PYTHONPATH=benchmarks python -m growth [--urls 10000000] [--changes 600000] [--sqlite] [--model] [NAME=VALUE …]``
(``make bench-growth``).  A private database holds a cache of so many URLs, another one a hundredth of them, as many
of which change in an hour.  On both the real scheduler, rules and storage work through what changes, hour by hour,
for two days at least, with a break of six hours in the middle in which nobody fetches.  Ten million take half an hour
and more, and 15 GB of disk in the folder for temporary files.

``--model`` only reckons; NAME=VALUE are assumptions and costs (doc/growth.md), such as ``urls=1e9 busy=0.7``.
Writes build/growth.md and build/growth.json.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs
from common import argument_parser, scratch, table
from suite.versions import commit, machine

from growth.figures import Assumptions, Costs
from growth.model import needs
from growth.simulation import Simulation, fill, folder_bytes, server_counts
from growth.world import HOURS, ChangeClass, World, changes_per_day
from lcc.config import QmConfig
from lcc.testing.inline_database import InlineDatabase
from lcc.testing.mariadb import PrivateMariaDb

BUILD = Path(__file__).parent.parent.parent / "build"
SMALLER = 100
"""The small cache has so many times fewer URLs, of as many providers, which change so many times as often: what comes
in an hour is alike, only the tables are not."""
URLS_OF_A_PROVIDER = 1000
CAPACITY = 1.5
"""What the robots can do, as a multiple of the mean of the changes."""
BREAK_HOURS = 6


@contextmanager
def database(work: Path, sqlite: bool) -> Iterator[tuple[InlineDatabase, int, Path]]:
    """An empty database, the process id of its server (0: none), and its folder."""
    if sqlite:
        yield InlineDatabase(work, Random(1)), 0, work
        return
    with PrivateMariaDb(durable=True, log_mib=1024) as server:
        daemon = int((server.folder / "data" / "pid").read_text())
        opened = InlineDatabase(work, Random(1), server.new_database())
        try:
            yield opened, daemon, server.folder / "data"
        finally:
            opened.close()


def simulate(work: Path, sqlite: bool, world: World, per_hour: float, hours: int) -> dict[str, Any]:
    """One world, for so many hours.

    :param per_hour: changes of it, on average.
    """
    work.mkdir()
    urls = world.urls
    with database(work, sqlite) as (opened, daemon, folder):
        begun = time.monotonic()
        empty = folder_bytes(folder)
        fill(opened, world, None if sqlite else folder)
        filled = folder_bytes(folder) - empty
        print(f"{urls:,} URLs: filled in {time.monotonic() - begun:.0f} s", file=sys.stderr)
        counted = server_counts(opened)
        simulation = Simulation(opened, world, math.ceil(CAPACITY * per_hour), QmConfig(), daemon)
        middle = hours // 2
        for number in range(hours):
            hour = simulation.hour(fetching=not middle <= number < middle + BREAK_HOURS)
            if number % max(1, hours // 24) == 0:
                print(f"hour {number}: {hour}", file=sys.stderr)
        told = sum(hour.told for hour in simulation.hours)
        per_page = {name: (count - counted[name]) / told for name, count in server_counts(opened).items()}
        after = folder_bytes(folder) - empty
    resident = next(
        int(line.split()[1]) / 1000
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    )
    return {
        "urls": urls,
        "providers": world.providers,
        "row_bytes": filled / urls,
        "row_bytes_after": after / urls,
        "per_page": per_page,
        "per_hour": per_hour,
        "middle": middle,
        "hours": [attrs.asdict(each) for each in simulation.hours],
        "costs": {name: attrs.asdict(cost) for name, cost in simulation.costs.items()},
        "micros": {name: cost.micros() for name, cost in simulation.costs.items()},
        "resident_mb": resident,
    }


def drained_after(found: dict[str, Any]) -> tuple[int, float]:
    """Hours from the end of the break until the queue was as empty as before it: seen, and reckoned."""
    hours, middle = found["hours"], found["middle"]
    end = middle + BREAK_HOURS
    before = hours[middle - 1]["queued"]
    seen = next((at for at, each in enumerate(hours[end:], 1) if each["queued"] <= before), len(hours) - end)
    backlog = hours[end - 1]["queued"] - before
    told = [each["told"] for each in hours[end : end + seen]]
    mean = sum(told) / max(1, len(told))
    return seen, backlog / (CAPACITY * found["per_hour"] - mean) if told else 0.0


def report(found: list[dict[str, Any]], model: str, measured: str) -> str:
    """Markdown.

    :param measured: with which commit.
    """
    parts = []
    if found:
        heads = ["CPU µs a URL, queue manager and database", *(f"{each['urls']:,} URLs" for each in found)]
        if len(found) == 2:
            heads.append("large / small")
        lines = []
        for name in found[0]["micros"]:
            values = [each["micros"][name] for each in found]
            ratio = [f"{values[1] / values[0]:.2f}"] if len(values) == 2 and values[0] else []
            lines.append([name, *(f"{value:.0f}" for value in values), *ratio])
        sums = [sum(each["micros"].values()) for each in found]
        ratio = [f"{sums[1] / sums[0]:.2f}"] if len(sums) == 2 else []
        lines.append(["all of a changed page", *(f"{value:.0f}" for value in sums), *ratio])
        parts.append(table(heads, lines))
        for each in found:
            told = sum(hour["told"] for hour in each["hours"])
            sets = sum(hour["sets"] for hour in each["hours"])
            most = max(hour["queued"] for hour in each["hours"])
            parts.append(
                f"{each['urls']:,} URLs of {each['providers']:,} providers, {len(each['hours'])} hours, {told:,}"
                f" changes in {sets:,} sets, {told / sets:.1f} in each. For a cached page the database takes"
                f" {each['row_bytes']:.0f} bytes after it was filled, {each['row_bytes_after']:.0f} after the last"
                f" hour. At most {most:,} are queued; {each['resident_mb']:.0f} MB."
            )
            if each["per_page"]:
                counts = ", ".join(f"{name} {count:.2g}" for name, count in each["per_page"].items())
                parts.append(f"For each changed page of these: {counts}.")
        seen, reckoned = drained_after(found[-1])
        parts.append(
            f"The backlog of {BREAK_HOURS} hours without robots was gone after {seen} hours; reckoned are"
            f" {reckoned:.1f}: backlog / (what the robots can do - what is told meanwhile)."
        )
        parts.append(f"Commit {measured}; {machine()}.")
    return "\n\n".join([*parts, model]) + "\n"


def modelled(words: list[str]) -> str:
    """The model's table, with these figures instead of its own.

    :raises SystemExit: there is no such figure.
    """
    values: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise SystemExit(f"{word}: must be NAME=NUMBER") from None
    known = {kind: {field.name for field in attrs.fields(kind)} for kind in (Assumptions, Costs)}
    strange = values.keys() - known[Assumptions] - known[Costs]
    if strange:
        raise SystemExit(f"no such figure: {', '.join(sorted(strange))}")
    assumptions = Assumptions(**{name: value for name, value in values.items() if name in known[Assumptions]})
    costs = Costs(**{name: value for name, value in values.items() if name in known[Costs]})
    return table(["of", "what", "needed", "how"], [need.cells() for need in needs(assumptions, costs)])


def main() -> None:
    """Simulate, reckon, report."""
    parser = argument_parser(__doc__)
    parser.add_argument("figures", nargs="*", metavar="NAME=VALUE", help="assumptions and costs of the model")
    parser.add_argument("--urls", type=int, default=10_000_000, help="of the large cache")
    parser.add_argument("--changes", type=int, default=600_000, help="at least, in each")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--model", action="store_true", help="simulate nothing")
    parser.add_argument("--out", type=Path, default=BUILD)
    options = parser.parse_args()
    found = []
    measured = commit()
    model = modelled(options.figures)
    if not options.model:
        with scratch() as folder:
            urls, small = options.urls, options.urls // SMALLER
            providers = max(10, urls // URLS_OF_A_PROVIDER)
            per_hour = urls * changes_per_day() / HOURS
            hours = max(2 * HOURS, math.ceil(options.changes / per_hour))
            often = (ChangeClass(100, small / (per_hour * HOURS)),)
            for world in (World(small, providers, often), World(urls, providers)):
                place = folder / str(world.urls)
                found.append(simulate(place, options.sqlite, world, per_hour, hours))
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "growth.json").write_text(json.dumps(found, indent=1))
    text = report(found, model, measured)
    if not options.model:
        (options.out / "growth.md").write_text(text)
    print(text)


if __name__ == "__main__":
    os.umask(0o022)
    main()
