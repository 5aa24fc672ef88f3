"""``make bench``: what is done is kept, what changed is measured again, what is missing is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from suite.document import PIECES, PROJECT, put
from suite.plan import STEPS, Step
from suite.results import Results, code_mark
from suite.run import Suite

from tests.benchmarks.conftest import BENCHMARKS

FAKE = """
import argparse
import sys
sys.path.append({path!r})
from pathlib import Path
from rows import Row, add_options, at_least, give

parser = argparse.ArgumentParser()
add_options(parser)
parser.add_argument("--size", type=int, default=100)
options = parser.parse_args()
with Path({log!r}).open("a") as log:
    log.write(f"{{options.size}} {{options.runs}}\\n")
give(options, [Row("fake", "pages/s", [options.size] * options.runs, "peer", [50] * options.runs, at_least(2))])
"""


class Fakes:
    """A folder with a benchmark that takes no time."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self._results = folder / "results"
        self._script = folder / "fake_speed.py"
        self._folder = folder
        self.code = folder / "lcc" / "measured.py"
        self.code.parent.mkdir()
        self.code.write_text("1")
        self.write()

    def write(self, more: str = "") -> None:
        self._script.write_text(FAKE.format(path=str(BENCHMARKS), log=str(self.log)) + more)

    def suite(self, quick: bool = False, rows: tuple[str, ...] = ("fake",), nginx: str = "1.22") -> Suite:
        steps = (
            Step("fake, one", "fake_speed", rows, quick="--size 7"),
            Step("other", "no_such_benchmark", ("something else",)),
        )
        results = Results(self._results, self._folder, self._folder)
        versions = {"Python": "3.99", "nginx": nginx, "commit": "0123456789"}
        return Suite(steps, results, quick, 3, versions, self._folder)

    def ran(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)


def test_table_has_every_row_of_the_plan(fakes: Fakes) -> None:
    suite = fakes.suite()
    assert suite.run(["fake"]) == []
    text = suite.report()
    assert "| fake | 100 (100 to 100) pages/s | peer | 50 (50 to 50) | 2 (2 to 2) | ≥ 2 x peer | yes | 3 |" in text
    assert "| something else | not measured |" in text
    assert "Python 3.99" in text
    assert "0123456789" in text


def test_what_is_done_is_not_run_again(fakes: Fakes) -> None:
    assert fakes.suite().run(["fake"]) == []
    assert fakes.suite().run(["fake"]) == []
    assert fakes.ran() == ["100 3"]
    assert fakes.suite().run(["fake"], fresh=True) == []
    assert len(fakes.ran()) == 2


def test_changed_code_or_benchmark_is_measured_again(fakes: Fakes) -> None:
    fakes.suite().run(["fake"])
    fakes.code.write_text("2")
    assert "| fake | not measured |" in fakes.suite().report()
    fakes.suite().run(["fake"])
    fakes.write("# changed\n")
    assert "| fake | not measured |" in fakes.suite().report()
    fakes.suite().run(["fake"])
    assert len(fakes.ran()) == 3


def test_what_changes_while_it_runs_does_not_count(fakes: Fakes, capfd: pytest.CaptureFixture[str]) -> None:
    fakes.write(f"Path({str(fakes.code)!r}).open('a').write('# changed')\n")
    assert fakes.suite().run(["fake"]) == ["fake, one"]
    assert "the code changed while it ran" in capfd.readouterr().err
    assert "| fake | not measured |" in fakes.suite().report()


def test_other_versions_are_told(fakes: Fakes) -> None:
    assert fakes.suite(nginx="1.22").run(["fake"]) == []
    assert "0123456789." in fakes.suite(nginx="1.22").report()
    text = fakes.suite(nginx="1.30").report()
    assert "nginx 1.30; commit 0123456789." in text
    assert "0123456789, nginx 1.22." in text


def test_quick_has_sizes_of_its_own_and_says_so(fakes: Fakes) -> None:
    suite = fakes.suite(quick=True)
    suite.run(["fake"])
    assert fakes.ran() == ["7 1"]
    assert suite.report().startswith("Quick figures")
    assert "Quick" not in fakes.suite().report()


def test_a_benchmark_without_its_row_or_that_fails_is_told(fakes: Fakes, capfd: pytest.CaptureFixture[str]) -> None:
    assert fakes.suite(rows=("fake", "another")).run([""]) == ["fake, one", "other"]
    fakes.write("raise SystemExit(3)\n")
    assert fakes.suite().run(["fake"]) == ["fake, one"]
    assert "| fake | not measured |" in fakes.suite().report()
    shown = capfd.readouterr().err
    assert "gave no row another" in shown
    assert "no_such_benchmark.py" in shown
    assert "exit status 3" in shown


@pytest.mark.parametrize("name", ["lcc/a.py", "lcc/sql/a.sql", "benchmarks/common.py", "benchmarks/growth/world.py"])
def test_the_mark_is_of_the_code_and_of_what_measures_it(name: str, tmp_path: Path) -> None:
    def mark() -> str:
        return code_mark(tmp_path, tmp_path / "benchmarks")

    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("1")
    before = mark()
    (tmp_path / name).with_name("notes.txt").write_text("no code")
    assert mark() == before
    (tmp_path / name).write_text("2")
    assert mark() != before


def test_names_of_steps_and_rows_are_unlike() -> None:
    names = [step.name for step in STEPS]
    rows = [row for step in STEPS for row in step.rows]
    assert len(set(names)) == len(names)
    assert len(set(rows)) == len(rows)


def test_what_was_measured_comes_between_its_marks() -> None:
    page = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n<!-- y: begin -->\n<!-- y: end -->\n"
    once = put(page, "x", "| new |\n")
    assert once == page.replace("old\n", "\n| new |\n\n")
    assert put(once, "x", "| new |\n") == once
    rows = put(page, "x", f"| {'a ' * 80}|\n\n{'word ' * 60}").splitlines()
    assert all(len(row) <= 100 for row in rows if not row.startswith("|")) and f"| {'a ' * 80}|" in rows
    with pytest.raises(ValueError, match="no marks for z"):
        put(page, "z", "")


def test_the_pages_have_the_marks() -> None:
    for name, (_, page) in PIECES.items():
        put((PROJECT / "doc" / page).read_text(), name, "")
