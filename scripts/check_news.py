"""Checks that the news fragments are there and that towncrier understands them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    fragments = [path for path in (root / "newsfragments").iterdir() if not path.name.startswith(".")]
    empty = [path.name for path in fragments if not path.read_text(encoding="utf-8").strip()]
    if not fragments or empty:
        print(f"newsfragments: {'empty: ' + ', '.join(empty) if empty else 'there is none'}", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next", "--date", "today"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    # A name of an unknown kind is left out of the news without a word.
    lost = [path.name for path in fragments if path.read_text(encoding="utf-8").split()[0] not in done.stdout]
    if done.returncode or lost:
        print(done.stderr or f"newsfragments: towncrier does not take {', '.join(lost)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
