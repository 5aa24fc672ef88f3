"""``follower.py`` as a process that can be killed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path


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

    def told(self) -> Counter[str]:
        """How often it was told each state of each page."""
        return Counter((self.folder / "told").read_text().splitlines())

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
