"""doc/security.md names tests as proof: each of them exists, where it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "doc" / "security.md").read_text(encoding="utf-8")
FILES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/*.py")}
_NAME = re.compile(r"`((?:tests/)?[\w/]*test_\w+(?:\.py)?)`")
HEADING = "| entry point | attack | guard | test |"


def rows() -> list[list[str]]:
    """All rows of the tables, cell by cell."""
    lines = [line for line in TEXT.splitlines() if line.startswith("|") and line != HEADING and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_row_says_what_shows_its_guard() -> None:
    assert len(rows()) > 60
    for row in rows():
        assert len(row) == 4 and all(row), row
        assert _NAME.search(row[3]), row


def test_each_test_that_is_named_exists() -> None:
    defined = {
        name for text in FILES.values() for name in re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE)
    }
    for name in _NAME.findall(TEXT):
        if name.endswith(".py"):
            assert name in FILES or any(path.endswith(f"/{name}") for path in FILES), name
        else:
            assert name in defined, name


def test_a_test_stands_in_the_file_that_is_named_before_it() -> None:
    for row in rows():
        text = ""
        for part in re.split(r";", row[3]):
            named = re.match(r"\s*`((?:tests/)?[\w/]*test_\w+\.py)`:", part)
            if named is None:
                continue
            text = "".join(text for path, text in FILES.items() if path == named[1] or path.endswith(f"/{named[1]}"))
            for name in _NAME.findall(part[named.end() :]):
                assert f"def {name}(" in text, (named[1], name)
