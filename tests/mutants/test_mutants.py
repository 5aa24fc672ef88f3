"""The tool that plants changes: what it changes, that it notices, and what the lists beside it say."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.__main__ import ROOT, files_of, read_file, read_map, room_of
from tests.mutants.changes import changed, mutants
from tests.mutants.planting import plant_before_import, plant_constant, plant_in_functions
from tests.mutants.results import Results, read_equal, tally
from tests.mutants.server import ENDLESS, KILLED, NO_TEST, SURVIVED, Baseline
from tests.mutants.tracing import Tracer

SAMPLE = '''"""A file."""
from __future__ import annotations

LIMIT: int = 7
WHERE = "SELECT a FROM b WHERE c = %s AND d < 1"


def within(number: int, least: int = 0) -> bool:
    """Whether it is."""
    if number < least or not number:
        raise ValueError(f"{number} is less than {least}")
    return number <= LIMIT


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, numbers: list[int]) -> None:
        self.count += sum(number for number in numbers if within(number))
        log.info("{count} counted", count=self.count)
'''


def keys(source: str) -> list[str]:
    return [mutant.key for mutant in mutants("f.py", source)]


def test_what_is_changed() -> None:
    assert keys(SAMPLE) == [
        "f.py:(module): 7 -> 8",
        "f.py:(module): 7 -> 6",
        "f.py:(module): 'SELECT a FROM b WHERE c = %s AND d < 1' -> 'SELECT a FROM b WHERE c = %s OR d < 1'",
        "f.py:(module): 'SELECT a FROM b WHERE c = %s AND d < 1' -> 'SELECT a FROM b WHERE c = %s AND d <= 1'",
        "f.py:(module): 'SELECT a FROM b WHERE c = %s AND d < 1' -> 'SELECT a FROM b WHERE c <> %s AND d < 1'",
        "f.py:within: 0 -> 1",
        "f.py:within: number < least or not number -> not number",
        "f.py:within: number < least or not number -> number < least",
        "f.py:within: number < least -> number <= least",
        "f.py:within: number < least -> number >= least",
        "f.py:within: not number -> number",
        "f.py:within: raise ValueError(f'{number} is less than {least}') -> pass",
        "f.py:within: return number <= LIMIT -> return None",
        "f.py:within: number <= LIMIT -> number < LIMIT",
        "f.py:within: number <= LIMIT -> number > LIMIT",
        "f.py:Counter.__init__: self.count = 0 -> pass",
        "f.py:Counter.__init__: 0 -> 1",
        "f.py:Counter.add: self.count += sum((number for number in numbers if within(number))) -> "
        "self.count -= sum((number for number in numbers if within(number)))",
        "f.py:Counter.add: self.count += sum((number for number in numbers if within(number))) -> pass",
        "f.py:Counter.add: for number in numbers if within(number) -> for number in numbers",
    ]


def test_each_change_is_one_and_its_name_stays_when_lines_move() -> None:
    moved = SAMPLE.replace("LIMIT: int", "\n\nLIMIT: int")
    assert keys(moved) == keys(SAMPLE)
    whole = ast.unparse(ast.parse(SAMPLE))
    for mutant in mutants("f.py", SAMPLE):
        text = ast.unparse(changed(SAMPLE, mutant.number))
        differing = [
            line for line, other in zip(whole.splitlines(), text.splitlines(), strict=False) if line != other
        ]
        assert differing, mutant.key
    twice = keys("a = 1\nb = 1\n")
    assert twice == ["f.py:(module): 1 -> 2", "f.py:(module): 1 -> 2 #2"]


MODULE = """
import functools

@functools.lru_cache
def kept(number):
    return number + 1

class Kind:
    def method(self):
        return [number * 2 for number in (1, 2)]

def outer():
    def inner():
        return 5
    return inner

made = outer()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that tests may import as ``planted_here``."""
    path = tmp_path / "planted_here.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = before
    sys.modules.pop("planted_here", None)


def plant(folder: Path, wanted: str) -> bool:
    (mutant,) = (mutant for mutant in mutants("planted_here.py", MODULE) if mutant.key.endswith(f": {wanted}"))
    assert mutant.function is not None
    return plant_in_functions("planted_here.py", folder, changed(MODULE, mutant.number), mutant.function)


def test_functions_are_changed_where_they_are(module: Path) -> None:
    import planted_here  # type: ignore[import-not-found]

    kept, method, made = planted_here.kept, planted_here.Kind().method, planted_here.made
    assert (kept(1), method(), made()) == (2, [2, 4], 5)
    assert plant(module, "number + 1 -> number - 1") and kept(3) == 2
    assert plant(module, "number * 2 -> number / 2") and method() == [0.5, 1.0]
    assert plant(module, "5 -> 6") and made() == 6


CONSTANTS = """
FIRST = 3
_SECOND: int = FIRST + 1
_THIRD = 5
_FOURTH = 6

def default(number=_THIRD):
    return number

def values():
    return FIRST, _SECOND, _FOURTH
"""


def test_constants_are_changed_where_they_are_if_nothing_else_hangs_on_them(module: Path) -> None:
    (module / "planted_here.py").write_text(CONSTANTS)
    import planted_here

    def plant(wanted: str) -> bool:
        (mutant,) = (each for each in mutants("planted_here.py", CONSTANTS) if each.key.endswith(f": {wanted}"))
        return plant_constant("planted_here.py", changed(CONSTANTS, mutant.number), mutant.line)

    assert plant("6 -> 7") and planted_here.values() == (3, 4, 7)
    assert plant("3 -> 2") and planted_here.values() == (2, 3, 7)
    assert not plant("5 -> 6"), "a default is the function's"
    assert not plant("return number -> return None"), "no constant"
    sys.modules["planted_there"] = planted_there = ModuleType("planted_there")
    planted_there.FIRST = planted_here.FIRST  # type: ignore[attr-defined]
    try:
        assert not plant("3 -> 4"), "another module may have made something of it"
    finally:
        del sys.modules["planted_there"]


def test_a_module_is_changed_before_it_is_imported(module: Path) -> None:
    (mutant,) = (mutant for mutant in mutants("planted_here.py", MODULE) if mutant.key.endswith(": 5 -> 6"))
    plant_before_import("planted_here.py", module, changed(MODULE, mutant.number))
    import planted_here

    assert planted_here.made() == 6


def test_lines_are_those_that_are_executed(module: Path) -> None:
    import planted_here

    tracer = Tracer([planted_here.__file__])
    for _ in range(2):
        with tracer.collecting() as lines:
            planted_here.Kind().method()
        assert lines == {planted_here.__file__: {10}} or lines == {planted_here.__file__: {9, 10}}


DEFAULTS = """
class Rules(NamedTuple):
    most: int = 3

    def within(self, number):
        return number <= self.most
"""


def test_a_test_of_a_default_stands_beside_one_that_executes_the_file() -> None:
    """``Rules() == Rules(3)`` executes no line of the file, but is the test that notices."""
    base = Baseline(
        seconds={"a.py::within": 0.1, "a.py::defaults": 0.01, "b.py::other": 0.001},
        lines={"a.py::within": {"f.py": [6]}, "a.py::defaults": {}, "b.py::other": {"g.py": [1]}},
        importing={"f.py": [2, 3, 5]},
        modules=[],
        failed=[],
    )
    default, comparison = (
        next(mutant for mutant in mutants("f.py", DEFAULTS) if mutant.key.endswith(change))
        for change in (": 3 -> 4", "number < self.most")
    )
    assert base.noticing("f.py", default) == ["a.py::defaults", "a.py::within"]
    assert base.noticing("f.py", comparison) == ["a.py::within"]
    assert base.noticing("h.py", default) == ["b.py::other", "a.py::defaults", "a.py::within"]


def test_who_executes_what_few_others_do_comes_first() -> None:
    """Of those that execute the changed line, the one that is about the branch behind it."""
    line = next(mutant.line for mutant in mutants("f.py", DEFAULTS) if mutant.key.endswith("number < self.most"))
    base = Baseline(
        seconds={"quick": 0.1, "quicker": 0.09, "rare": 0.4, "slow": 40.0},
        lines={test: {"f.py": [line]} for test in ("quick", "quicker")}
        | {test: {"f.py": [line, line + 2]} for test in ("rare", "slow")},
        importing={},
        modules=[],
        failed=[],
    )
    comparison = next(mutant for mutant in mutants("f.py", DEFAULTS) if mutant.line == line)
    assert base.noticing("f.py", comparison) == ["quicker", "quick", "rare", "slow"]
    seconds = base.seconds | {"rare": 0.2}
    assert base._replace(seconds=seconds).noticing("f.py", comparison)[0] == "rare"


# The whole.


def run(*options: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--jobs", "1", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_test_notices_and_what_was_tried_is_not_tried_again(tmp_path: Path) -> None:
    rooms, results = tmp_path / "map", tmp_path / "results.jsonl"
    options = ("lcc/domain/notices/quota.py", "--map", rooms, "--results", results)
    rooms.write_text("lcc/domain/notices/quota.py: tests/domain/test_debts.py\n")
    assert "running the tests" in run(*options, "--sample", "5")
    assert {json.loads(line)["outcome"] for line in results.read_text().splitlines()} == {NO_TEST}
    rooms.write_text("lcc/domain/notices/quota.py: tests/domain/test_quota.py\n")
    assert "running the tests" in run(*options, "--least", "90")
    assert "running the tests" not in run(*options, "--least", "90")
    outcomes = [json.loads(line)["outcome"] for line in results.read_text().splitlines()[5:]]
    assert len(outcomes) == len(read_file("lcc/domain/notices/quota.py").mutants) and outcomes.count(KILLED) > 25


def test_results_are_of_a_file_as_it_is(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    planned = mutants("f.py", SAMPLE)
    for mutant, outcome in zip(planned, [KILLED, SURVIVED, NO_TEST, ENDLESS], strict=False):
        results.add(mutant.key, outcome, "code", "tests", 0.1)
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"key": "cut o')
    results = Results(tmp_path / "results.jsonl")
    assert results.outcome(planned[0].key, "code", "other tests") == KILLED
    assert results.outcome(planned[1].key, "code", "tests") == SURVIVED
    assert results.outcome(planned[1].key, "code", "other tests") is None
    assert results.outcome(planned[0].key, "other code") is None
    found = tally("f.py", planned[:5], results, "code", {planned[2].key: "why"})
    assert (found.killed, found.endless, found.equal, found.untried, found.judged) == (1, 1, 1, 1, 3)
    assert [(mutant.key, outcome) for mutant, outcome in found.survivors] == [(planned[1].key, SURVIVED)]


# The lists.


def test_the_map_names_what_there_is() -> None:
    rooms = read_map()
    for room in rooms:
        assert (ROOT / room.place).exists(), room.place
        for test in room.tests:
            assert (ROOT / test).exists(), test
    files = list(files_of(rooms, []))
    assert len(files) == len(set(files)) > 40
    assert room_of("lcc/domain/notices/quota.py", rooms).tests


def test_what_is_the_same_program_is_a_change_and_has_a_reason() -> None:
    known = {mutant.key for path in files_of(read_map(), []) for mutant in read_file(path).mutants}
    for key, reason in read_equal().items():
        assert key in known, f"no such change (any longer): {key}"
        assert len(reason) > 15, f"no reason: {key}"
