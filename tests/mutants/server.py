"""Runs chosen tests in processes that are forked once all is imported: a test costs what it costs, and no more.

A process imports what others have written.  It forks one in which pytest collects the tests, and which forks once
more for each changed function.  What is executed when a module is imported needs a child that imports the changed
module, and collects its tests anew.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings

from .changes import Mutant, changed
from .planting import plant_before_import, plant_constant, plant_in_functions
from .tracing import Tracer

ROOT = Path(__file__).resolve().parents[2]
KILLED, SURVIVED, ENDLESS, NO_TEST = "killed", "survived", "endless", "no test"
"""How it ended: a test failed; none did; no end in time; no test executes the line.  Endless ones count as killed."""
MEMORY_BYTES = 6 << 30
_NOT_AHEAD = ("lcc", "tests", "twisted.plugins", "twisted.internet.reactor", "__")
_PATIENCE_FACTOR = 6
_PATIENCE_SECONDS = 8.0
_PROCESSOR_FACTOR = 3
_PROCESSOR_SECONDS = 2.0
_IMPORTING_SECONDS = 20.0
_BASELINE_SECONDS = 1500.0
_NEAR_LINES = 6
_EXPECTED = "ignore::pytest.PytestAssertRewriteWarning"
_LEFT = 71
"""Exit status: it could not be changed in place, or that was not all."""


class Baseline(NamedTuple):
    """What the tests do when nothing is changed.

    :ivar seconds: test -> how long it takes.
    :ivar lines: test -> file, as in the repository -> lines that it executes.
    :ivar importing: file -> lines that are executed while the tests are collected.
    :ivar modules: what they import that others have written.
    :ivar failed: tests that fail.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[int]]]
    importing: dict[str, list[int]]
    modules: list[str]
    failed: list[str]

    def noticing(self, path: str, mutant: Mutant) -> list[str]:
        """The tests that can notice a change: first those that are quick, and execute lines nearby that few others
        do, because these are about it."""
        wanted = set(range(mutant.line, mutant.last_line + 1))
        tests = [test for test, files in self.lines.items() if wanted & set(files.get(path, ()))]
        if mutant.function is None:
            # It is executed before any test.  A test of a default or a constant may execute nothing of the file: all
            # tests of a file of which one does, or else all tests.
            beside = {_file_of(test) for test, files in self.lines.items() if files.get(path)}
            tests = [test for test in self.lines if _file_of(test) in beside] or list(self.lines)
            return sorted(tests, key=self.seconds.__getitem__)
        near = set(range(mutant.line - _NEAR_LINES, mutant.last_line + _NEAR_LINES + 1))
        nearby = {test: near & set(self.lines[test][path]) for test in tests}
        often = Counter(line for lines in nearby.values() for line in lines)
        rarity = {test: sum(1 / often[line] for line in lines) for test, lines in nearby.items()}
        return sorted(tests, key=lambda test: self.seconds[test] / rarity[test])

    def can_be_changed_in_place(self, path: str, mutant: Mutant) -> bool:
        """Whether nothing of the change is executed before the tests are, or it may be a constant."""
        lines = range(mutant.line, mutant.last_line + 1)
        return mutant.function is None or set(lines).isdisjoint(self.importing.get(path, ()))


def baseline(tests: Sequence[str], files: Sequence[str], folder: Path) -> Baseline:
    """Run all tests once, in a process of its own."""
    result = folder / "baseline.json"
    result.unlink(missing_ok=True)

    def measure() -> int:
        tracer = Tracer(str(ROOT / file) for file in files)
        plugin = _Measuring(tracer)
        with tracer.collecting() as importing:
            plugin.importing = importing
            code = _pytest(tests, folder, plugin)
        modules = [name for name in sys.modules if not name.startswith(_NOT_AHEAD)]
        found = Baseline(plugin.seconds, plugin.lines, _relative(plugin.importing), modules, plugin.failed)
        result.write_text(json.dumps(found._asdict()))
        return code

    _forked(measure, _BASELINE_SECONDS)
    if not result.exists():
        raise RuntimeError(f"the tests could not be run: {' '.join(tests)}")
    return Baseline(**json.loads(result.read_text()))


def import_ahead(modules: Iterable[str]) -> None:
    """Import them in this process, so that its children need not."""
    for name in modules:
        if "reactor" not in name:
            try:
                importlib.import_module(name)
            except Exception:
                pass  # a child imports it as it can
    assert "twisted.internet.reactor" not in sys.modules


class Trial(NamedTuple):
    """A mutant, and the tests that can notice it.

    :ivar patience: seconds until it is endless, on a loaded machine.
    :ivar processor: the same, as seconds of the processor.
    """

    path: str
    source: str
    mutant: Mutant
    tests: list[str]
    patience: float
    processor: float

    def limit(self, more: float = 0.0) -> None:
        """Bound the memory of this process, and its time of the processor."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        seconds = math.ceil(time.process_time() + self.processor + more)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def trial(path: str, source: str, mutant: Mutant, base: Baseline, seconds_max: float) -> Trial:
    """What is to be run for it.

    :param seconds_max: of all tests that can notice, quick ones first, so much is run.
    """
    tests, usual = [], 0.0
    for test in base.noticing(path, mutant):
        usual += base.seconds[test]
        if usual > seconds_max and tests:
            break
        tests.append(test)
    patience, processor = _PATIENCE_SECONDS + _PATIENCE_FACTOR * usual, _PROCESSOR_SECONDS + _PROCESSOR_FACTOR * usual
    return Trial(path, source, mutant, tests, patience, processor)


Tell = Callable[[Trial, str, float], None]
"""Takes how a trial has ended, and how many seconds it has taken."""


def try_functions(trials: Sequence[Trial], folder: Path, tell: Tell) -> None:
    """Trials of changed functions and constants: their tests are collected once, in a child of this process."""
    if not trials:
        return
    files = sorted(_files_of(test for trial in trials for test in trial.tests))
    left = folder / "left"
    left.write_text("")
    _forked(lambda: _pytest(files, folder, _Serving(trials, tell, left)), None)
    for line in left.read_text().splitlines():
        try_module(trials[int(line)], folder, tell)


def try_module(trial: Trial, folder: Path, tell: Tell) -> None:
    """A trial of what is executed when the module is imported."""

    tree = changed(trial.source, trial.mutant.number)

    def run(tests: Sequence[str]) -> int:
        trial.limit(_IMPORTING_SECONDS)
        plant_before_import(trial.path, ROOT, tree)
        return _pytest(_files_of(tests), folder, _Choosing(tests))

    begun = time.monotonic()
    # The file that knows it best first: the others need not be collected where that one notices.
    best = Counter(map(_file_of, trial.tests)).most_common(1)[0][0]
    parts = [[test for test in trial.tests if _file_of(test) == best]]
    parts.append([test for test in trial.tests if _file_of(test) != best])
    outcome = SURVIVED
    for tests in parts:
        if tests and outcome == SURVIVED:
            outcome = _outcome(_forked(functools.partial(run, tests), trial.patience + _IMPORTING_SECONDS))
    tell(trial, outcome, time.monotonic() - begun)


def _files_of(tests: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(_file_of(test) for test in tests))


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _outcome(status: int | None) -> str:
    return ENDLESS if status in (None, -signal.SIGXCPU) else SURVIVED if status == 0 else KILLED


def _pytest(arguments: Iterable[str], folder: Path, plugin: object) -> int:
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=no",
        "-W",
        _EXPECTED,
        f"--basetemp={folder / 'tests'}",
    ]
    return int(pytest.main([*options, *arguments], plugins=[plugin, _Repeatable()]))


def _relative(lines: dict[str, set[int]]) -> dict[str, list[int]]:
    return {str(Path(file).relative_to(ROOT)): sorted(found) for file, found in lines.items()}


def _forked(run: Callable[[], int], seconds: float | None) -> int | None:
    """The exit status of a child that runs this; None: it took too long, and was killed, with all that it started."""
    child = os.fork()
    if not child:
        status = 70
        try:
            os.setpgid(0, 0)
            if not os.environ.get("MUTANTS_VERBOSE"):
                null = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(null, descriptor)
            status = run()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    try:
        os.setpgid(child, child)
    except OSError:
        pass  # it was quicker
    handle = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([handle], [], [], seconds)
    finally:
        os.close(handle)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if ended else None


class _Repeatable:
    """The same random tests in each run; a failure need not be made small."""

    def pytest_sessionstart(self) -> None:
        usual = settings.get_profile("lcc")
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", usual, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")


class _Measuring:
    """How long each test takes, and which lines it executes."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.importing: dict[str, set[int]] = {}
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[str, list[int]]] = {}
        self.failed: list[str] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.maxfail = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        begun = time.monotonic()
        with self._tracer.collecting() as lines:
            result = yield
        self.seconds[item.nodeid] = round(time.monotonic() - begun, 4)
        self.lines[item.nodeid] = _relative(lines)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


class _Choosing:
    """Only some of the tests, in their order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = _chosen(items, self._order)


def _chosen(items: Iterable[pytest.Item], order: dict[str, int]) -> list[pytest.Item]:
    return sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


class _Serving:
    """Forks for each trial, with all tests collected."""

    def __init__(self, trials: Sequence[Trial], tell: Tell, left: Path) -> None:
        self._trials = trials
        self._tell = tell
        self._left = left

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for number, trial in enumerate(self._trials):
            begun = time.monotonic()
            status = _forked(functools.partial(self._try, session, trial), trial.patience)
            if status == _LEFT:
                with self._left.open("a") as file:
                    file.write(f"{number}\n")
            else:
                self._tell(trial, _outcome(status), time.monotonic() - begun)
        return True

    def _try(self, session: pytest.Session, trial: Trial) -> int:
        tree: ast.Module = changed(trial.source, trial.mutant.number)
        function = trial.mutant.function
        if function is None:
            planted = plant_constant(trial.path, tree, trial.mutant.line)
        else:
            planted = plant_in_functions(trial.path, ROOT, tree, function)
        if not planted:
            return _LEFT
        trial.limit()
        items = _chosen(session.items, {test: place for place, test in enumerate(trial.tests)})
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return 1
        # What a constant does to modules that import this one shows only when they are imported anew.
        return _LEFT if function is None else 0
