"""Runs ``lcc-export`` as a process against a real content user API."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.internet.threads import deferToThread

from tests.support.roles.content_users import Api

Done = subprocess.CompletedProcess[bytes]


async def export(api: Api, *arguments: str | Path, code: int = 0, **environment: str) -> Done:
    """What it says; it must end with this exit code."""
    command = [sys.executable, "-c", "from lcc.export.cli import main; main()"]
    command += ["--from", f"http://127.0.0.1:{api.port}", *map(str, arguments)]
    done = await deferToThread(_run, command, os.environ | environment)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def _run(command: list[str], environment: dict[str, str]) -> Done:
    return subprocess.run(command, capture_output=True, timeout=120, env=environment, check=False)
