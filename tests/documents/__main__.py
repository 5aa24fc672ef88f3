"""``python -m tests.documents [--show] [--zsh] PAGE…``: play pages, each on a machine of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import warm
from .host import HOME, namespaces, set_up
from .player import Player
from .shell import Shell
from .worlds import environment

INSIDE = "--inside"
ZSH = "--zsh"
"""By zsh instead of bash."""


def main() -> int:
    """Gives the exit code."""
    arguments = sys.argv[1:]
    if INSIDE in arguments:
        return inside(Path(arguments[-1]), "--show" in arguments, "zsh" if ZSH in arguments else "bash")
    options = [option for option in ("--show", ZSH) if option in arguments]
    pages = [page for page in arguments if not page.startswith("--")]
    return max(subprocess.run(command(Path(page), options), check=False).returncode for page in pages)


def command(page: Path, options: list[str]) -> list[str]:
    """Plays one page; its exit code says whether all went well."""
    return [*namespaces(), sys.executable, "-m", "tests.documents", INSIDE, *options, str(page.resolve())]


def inside(page: Path, tell: bool, kind: str) -> int:
    """Within the namespaces."""
    began = time.monotonic()
    set_up()
    os.chdir(HOME)
    shell = Shell(HOME, environment(warm.start(Path(tempfile.mkdtemp(dir="/var/run")))), kind)
    player = Player(shell, tell)
    try:
        player.page(page)
    except AssertionError as error:
        print(error, flush=True)
        return 1
    print(f"{page.name}: {player.played} commands, {time.monotonic() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
