"""Plants changes in files, one at a time, and looks whether a test notices; ``make mutants``.

Results are added to build/mutants.jsonl: a run can be stopped, and goes on.  A file that has changed is tried again,
and so is what survived, once the tests or this tool have changed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .changes import Mutant, mutants
from .results import Results, Tally, digest, read_equal, tally
from .server import NO_TEST, ROOT, Baseline, Tell, Trial, baseline, import_ahead, trial, try_functions, try_module

MAP = Path(__file__).with_name("tests.map")


class Room(NamedTuple):
    """A line of the map.

    :ivar place: a file, or a folder with a slash at its end.
    :ivar tests: files or folders.
    """

    place: str
    tests: tuple[str, ...]


def read_map(path: Path = MAP) -> list[Room]:
    """Which tests can notice a change of a file."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [Room(place, tuple(tests.split())) for place, _, tests in (line.partition(":") for line in lines)]


def room_of(path: str, rooms: Sequence[Room]) -> Room:
    """The longest one that fits."""
    fitting = [room for room in rooms if _within(path, room.place)]
    return max(fitting, key=lambda room: len(room.place))


def files_of(rooms: Sequence[Room], wanted: Sequence[str]) -> Iterator[str]:
    """The files of the rooms, or those of them within these folders."""
    found = set()
    for room in rooms:
        place = ROOT / room.place
        found.update(str(file.relative_to(ROOT)) for file in (place.rglob("*.py") if place.is_dir() else [place]))
    for name in wanted:
        if not any(_within(path, name) for path in found):
            raise SystemExit(f"no file of {name} is in the map of tests")
    for path in sorted(found):
        if not wanted or any(_within(path, name) for name in wanted):
            yield path


def _within(path: str, name: str) -> bool:
    return path == name or path.startswith(name.rstrip("/") + "/")


class File(NamedTuple):
    """A file whose changes are tried."""

    path: str
    source: str
    code: str
    mutants: list[Mutant]


def read_file(path: str) -> File:
    """With all its changes."""
    source = (ROOT / path).read_text(encoding="utf-8")
    return File(path, source, digest([ROOT / path]), mutants(path, source))


def run_room(files: Sequence[File], tests: Sequence[str], results: Results, options: argparse.Namespace) -> None:
    """Try what is still to be tried of these files."""
    # What chooses the tests and plants the changes counts, too.
    tool = ("tests/mutants/server.py", "tests/mutants/planting.py")
    places = [ROOT / test for test in (*tests, "tests/support", *tool)]
    checked = digest(
        file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    )
    due = [
        (file, mutant)
        for file in files
        for mutant in file.mutants
        if mutant.function is not None or not options.functions
        if options.again or results.outcome(mutant.key, file.code, checked) is None
    ]
    if not due:
        return
    codes = {file.path: file.code for file in files}
    with tempfile.TemporaryDirectory(prefix="mutants") as name:
        begun = time.monotonic()
        print(f"{' '.join(tests)}: {len(due)} mutants; running the tests as they are …", flush=True)
        base = baseline(tests, [file.path for file in files], Path(name))
        print(f"  {len(base.seconds)} tests in {time.monotonic() - begun:.0f} seconds", flush=True)
        if base.failed:
            raise SystemExit("they fail where nothing is changed: " + " ".join(base.failed[:5]))
        trials = [trial(file.path, file.source, mutant, base, options.seconds) for file, mutant in due]

        def tell(trial: Trial, outcome: str, seconds: float) -> None:
            results.add(trial.mutant.key, outcome, codes[trial.path], checked, seconds)
            if options.verbose:
                sys.stderr.write(f"{outcome} {seconds:.1f} s, {len(trial.tests)} tests: {trial.mutant.key}\n")

        for left_out in (trial for trial in trials if not trial.tests):
            tell(left_out, NO_TEST, 0.0)
        trials = [trial for trial in trials if trial.tests]
        children = [
            _nursery(trials[part :: options.jobs], base, Path(name) / str(part), tell) for part in range(options.jobs)
        ]
        for child in children:
            if os.waitpid(child, 0)[1]:
                raise SystemExit(f"{' '.join(tests)}: a process of trials has ended in an error")


def _nursery(trials: Sequence[Trial], base: Baseline, folder: Path, tell: Tell) -> int:
    folder.mkdir()
    child = os.fork()
    if child:
        return child
    try:
        import_ahead(base.modules)
        in_place, anew = [], []
        for each in trials:
            (in_place if base.can_be_changed_in_place(each.path, each.mutant) else anew).append(each)
        try_functions(in_place, folder, tell)
        for each in anew:
            try_module(each, folder, tell)
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def report(files: Sequence[File], results: Results, show: bool) -> float:
    """Print what was found; percent of what was killed."""
    equal = read_equal()
    rows = [tally(file.path, file.mutants, results, file.code, equal) for file in files]
    if show:
        for row in rows:
            for mutant, outcome in row.survivors:
                print(f"{outcome}, line {mutant.line}\n{mutant.key}")
        print()
    print(f"{'file':44} killed  endless  same  survived  not tried  %")
    for row in [*rows, _all(rows)]:
        counts = f"{row.killed:6} {row.endless:8} {row.equal:5} {len(row.survivors):9} {row.untried:10}"
        print(f"{row.path:44} {counts} {row.percent:5.1f}")
    return _all(rows).percent


def _all(rows: Sequence[Tally]) -> Tally:
    killed, endless, equal, untried = (sum(counts) for counts in zip(*(row[1:5] for row in rows), strict=True))
    return Tally("all", killed, endless, equal, untried, [survivor for row in rows for survivor in row.survivors])


def main() -> int:
    """Try what is due, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("places", nargs="*", metavar="FILE", help="files or folders; default: all of tests.map")
    parser.add_argument("--jobs", type=int, default=2, help="processes that try at once")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many, chosen at random")
    parser.add_argument("--seed", default="1", help="of the choice")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        help="of the tests that can notice a change, quick ones first, so much is run; default: %(default)s",
    )
    parser.add_argument("--functions", action="store_true", help="not what is executed on import, which takes longer")
    parser.add_argument("--again", action="store_true", help="also those that were tried")
    parser.add_argument("--report", action="store_true", help="try nothing")
    parser.add_argument("--survivors", action="store_true", help="list what no test has noticed")
    parser.add_argument("--least", type=float, default=0.0, metavar="PERCENT", help="fail if less are killed")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.jsonl")
    parser.add_argument("--map", type=Path, default=MAP, help="which tests can notice; default: %(default)s")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("LCC_BACKENDS", "sqlite")
    os.chdir(ROOT)
    rooms = read_map(options.map)
    files = [read_file(path) for path in files_of(rooms, options.places)]
    if options.sample:
        chosen = {mutant.key for file in files for mutant in file.mutants}
        chosen = set(random.Random(options.seed).sample(sorted(chosen), min(options.sample, len(chosen))))
        files = [file._replace(mutants=[mutant for mutant in file.mutants if mutant.key in chosen]) for file in files]
    results = Results(options.results)
    if not options.report:
        by_tests: dict[tuple[str, ...], list[File]] = {}
        for file in files:
            by_tests.setdefault(room_of(file.path, rooms).tests, []).append(file)
        for tests, together in by_tests.items():
            run_room(together, tests, results, options)
        results.read()
    return int(report(files, results, options.survivors) < options.least)


if __name__ == "__main__":
    sys.exit(main())
