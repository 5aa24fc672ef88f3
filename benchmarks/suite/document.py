"""Puts what was measured into the documentation: ``make bench-doc``.

Between the lines ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` of a page comes what stands in the file of the
build folder; what was not measured stays as it was.  The picture of the soak goes beside the curves.
"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
PIECES = {
    "bench": ("bench.md", "performance.md"),
    "soak": ("soak.md", "performance.md"),
    "growth": ("growth.md", "growth.md"),
}
"""Name -> what was measured, the page."""
LINE_CHARS = 100
"""Of a line of the documentation."""


def put(page: str, name: str, piece: str) -> str:
    """The page with this piece between its marks.

    :raises ValueError: the page does not have them.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"there are no marks for {name}")
    return f"{before}{begin}\n{_wrapped(piece.strip())}\n\n{end}{after}"


def _wrapped(piece: str) -> str:
    """With lines as short as the documentation has them, but for rows of tables."""
    lines: list[str] = []
    for line in piece.splitlines():
        short = line.startswith("|") or len(line) <= LINE_CHARS
        lines += [line] if short else textwrap.wrap(line, LINE_CHARS, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def main() -> None:
    """All pieces that there are."""
    build, doc = PROJECT / "build", PROJECT / "doc"
    for name, (source, page) in PIECES.items():
        if (build / source).exists():
            path = doc / page
            path.write_text(put(path.read_text(), name, (build / source).read_text()))
            print(f"{name}: into {path}")
        else:
            print(f"{name}: not measured here")
    if (build / "soak.svg").exists():
        shutil.copy(build / "soak.svg", doc / "performance" / "soak.svg")


if __name__ == "__main__":
    main()
