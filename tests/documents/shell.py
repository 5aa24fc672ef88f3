"""A shell that stays, as that of a person who follows a page: folder and variables go on from command to command."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE_SECONDS = 60


SHELLS = {
    "bash": ("bash", "--noprofile", "--norc", "-o", "pipefail"),
    "zsh": ("zsh", "-f", "-o", "pipefail", "-o", "nobgnice"),
}


class Shell:
    """A shell.

    :param folder: where it begins.
    :param kind: of :data:`SHELLS`.
    """

    def __init__(self, folder: Path, environment: dict[str, str], kind: str = "bash") -> None:
        self.kind = kind
        self._mark = f"--{secrets.token_hex(8)}--"
        self._process = subprocess.Popen(
            SHELLS[kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=environment,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; gives its exit code and all that it shows."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f'{{ {command}\n}} </dev/null\nprintf "%s %s\\n" "{self._mark}" $?\n')
        self._process.stdin.flush()
        shown = ""
        for line in self._process.stdout:
            before, mark, code = line.partition(self._mark)
            shown += before
            if mark:
                return int(code), shown
        raise AssertionError(f"{command}: the shell has ended:\n{shown}")

    def until(self, command: str) -> None:
        """Try a command until it succeeds."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            code, shown = self.run(command)
            if code == 0:
                return
            assert time.monotonic() < end, f"never succeeded: {command}\n{shown}"
            time.sleep(0.1)

    @property
    def folder(self) -> Path:
        """Where it is."""
        return Path(self.run("pwd")[1].strip())

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        return dict(line.split("=", 1) for line in self.run("env -0 | tr '\\n\\0' ' \\n'")[1].splitlines())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def commands(text: str) -> Iterator[str]:
    """The commands of a script, one by one, each as bash needs it to be complete."""
    command = ""
    for line in text.splitlines():
        command += line
        if not command.strip() or command.lstrip().startswith("#"):
            command = ""
        elif _is_complete(command):
            yield command
            command = ""
        else:
            command += "\n"
    assert not command, f"not a complete command: {command}"


def _is_complete(command: str) -> bool:
    if command.endswith("\\"):
        return False
    tried = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
    return tried.returncode == 0 and "here-document" not in tried.stderr
