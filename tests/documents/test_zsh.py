"""The pages, played by zsh."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.documents import PAGES, ROOT, world_of

from .__main__ import ZSH, command
from .host import why_not


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if world_of(page)], ids=lambda page: page.name)
def test_zsh_does_the_same(page: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    assert shutil.which("zsh"), "there is no zsh: scripts/system-packages installs it"
    done = subprocess.run(command(page, [ZSH]), cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
