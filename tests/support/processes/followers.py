"""``follower.py`` as a process that can be killed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import attrs


@attrs.define
class Telling:
    """A row of an answer.

    :ivar time: when it came.
    :ivar kept: the token after it was kept: what comes after it is asked for next.
    """

    key: str
    curl: str
    state: str
    md5: str
    time: float
    kept: bool = False


class Follower:
    """``follower.py`` as a process.

    :param options: of its command line.
    :ivar places: the tokens in its state file when it was killed.
    """

    def __init__(self, address: str, folder: Path, *options: str) -> None:
        self.folder = folder
        self.places: list[str] = []
        self._address = address
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()

    def start(self) -> None:
        script = Path(__file__).with_name("follower.py")
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, str(script), self._address, str(self.folder), *self._options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """``kill -9``; it must have been running."""
        if self._process is not None:
            code = self._process.poll()
            self._process.kill()
            self._process.wait()
            self._process = None
            self.places.append(self.place())
            assert code is None, (self.folder / "log").read_text()[-2000:]

    def end(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def place(self) -> str:
        """The token in its state file; empty where there is none yet."""
        token = self.folder / "token"
        return token.read_text() if token.exists() else ""

    def has_moved(self) -> bool:
        """Whether it is at another place than where it was last killed."""
        return self.place() != (self.places[-1] if self.places else "")

    def tellings(self) -> list[Telling]:
        """All that it was told, in order."""
        told: list[Telling] = []
        answer: list[Telling] = []
        for line in (self.folder / "told").read_text().splitlines(keepends=True):
            said = json.loads(line) if line.endswith("\n") else {}
            if "asked" in said:
                answer = []
            elif "curl" in said:
                answer.append(Telling(**said))
                told.append(answer[-1])
            elif "kept" in said:
                for each in answer:
                    each.kept = True
        return told

    def told(self) -> Counter[str]:
        """How often it was told each state of each page."""
        return Counter(f"{each.key} {each.state} {each.md5}" for each in self.tellings())

    def copy(self) -> dict[str, tuple[str, str]]:
        """Curl -> md5 as the row says, md5 of the content."""
        found = {}
        for path in (self.folder / "copy").glob("*.json"):
            try:
                row = json.loads(path.read_bytes())
                data = path.with_suffix(".content").read_bytes()
            except FileNotFoundError:
                continue  # deleted just now
            found[row["curl"]] = row["md5"], hashlib.md5(data).hexdigest()
        return found
