"""The search engines, as doc/search-engines.md has them: its scripts and its commands."""

from __future__ import annotations

import os
import re
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_SECONDS

from .system import BIN

DOCUMENT = (Path(__file__).parents[3] / "doc" / "search-engines.md").read_text(encoding="utf-8")


def listing(name: str) -> str:
    """A script of the document."""
    found = re.search(rf"`{re.escape(name)}`[^`]*?:\n\n```(?:shell)?\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found, name
    return found[1]


class Engine(ABC):
    """A search engine with its index in a folder.

    :ivar command: what ``lcc-export`` is told: the engine's name, its options.
    :ivar state: the state file.
    """

    name: str
    scripts: tuple[str, ...]

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name
        self.folder.mkdir()
        self.state = self.folder / "state"
        for script in self.scripts:
            path = self.folder / script
            path.write_text(self.adapted(listing(script)), encoding="latin-1")
            path.chmod(0o755)

    def adapted(self, script: str) -> str:
        """A script with the folders of here."""
        return script

    @property
    def options(self) -> list[str]:
        """Further options."""
        return []

    @property
    @abstractmethod
    def consumer(self) -> list[str]:
        """The command that brings the index up to date."""

    @abstractmethod
    def found(self, word: str) -> set[str]:
        """The URLs of the pages that a search finds."""

    def export(self, base: list[str], *options: str) -> list[str]:
        """The command that brings the engine up to date.

        :param base: ``lcc-export`` with what says where the LCC is.
        """
        more = [*self.options, *options]
        return [*base, self.name, "--since", str(self.state), *more, "--", *self.consumer]

    def run(self, *command: str) -> str:
        """Run a program of the engine; gives its output."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
            env=dict(os.environ, QUERY_STRING="", OMEGA_CONFIG_FILE=str(self.folder / "omega.conf")),
        )
        assert done.returncode == 0, f"{command}: {done.returncode} {done.stdout!r}{done.stderr!r}"
        return done.stdout.decode("latin-1")


class SwishE(Engine):
    name = "swish-e"
    scripts = ("index-swish-e",)

    @property
    def consumer(self) -> list[str]:
        return [str(self.folder / "index-swish-e"), str(self.folder / "search")]

    def found(self, word: str) -> set[str]:
        index = self.folder / "search" / "current" / "index"
        if not index.exists():
            return set()
        out = self.run("swish-e", "-f", str(index), "-w", word, "-H", "0", "-x", "%p\\n")
        return set(out.split())


class SwishPlusPlus(Engine):
    name = "swish++"
    scripts = ("index-swish++",)

    @property
    def options(self) -> list[str]:
        return ["--mirror", str(self.folder / "pages")]

    @property
    def consumer(self) -> list[str]:
        return [str(self.folder / "index-swish++"), str(self.folder / "index"), str(self.folder / "pages")]

    def found(self, word: str) -> set[str]:
        if not (self.folder / "index").exists() or not list((self.folder / "pages").rglob("*@*")):
            return set()
        command = f"search++ -p 101 -m 100000 -i index {word} | {BIN}/lcc-export mirror-urls {self.folder / 'pages'}"
        lines = [line for line in self.run("sh", "-c", command).splitlines() if not line.startswith("#")]
        return {line.split()[1] for line in lines}


class HtDig(Engine):
    name = "htdig"
    scripts = ("htdig.conf", "index-htdig")

    def adapted(self, script: str) -> str:
        return script.replace("/usr/local/bin", str(BIN)).replace("/srv/htdig", str(self.folder / "dbs"))

    @property
    def consumer(self) -> list[str]:
        return [str(self.folder / "index-htdig"), str(self.folder / "dbs"), str(self.folder / "htdig.conf")]

    def found(self, word: str) -> set[str]:
        if not (self.folder / "dbs" / "current").exists():
            return set()
        query = f"words={word}&format=short&matchesperpage=1000"
        out = self.run("/usr/lib/cgi-bin/htsearch", "-c", "htdig.conf", query)
        return set(re.findall(r'<strong><a href="([^"]+)">', out))


class Omega(Engine):
    name = "omega"
    scripts = ("lcc.script", "index-omega")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        templates = "/usr/share/xapian-omega/templates"
        (self.folder / "omega.conf").write_text(
            f"database_dir {self.folder}\ntemplate_dir {templates}\nlog_dir {self.folder}\ncdb_dir {self.folder}\n"
        )

    @property
    def consumer(self) -> list[str]:
        return [str(self.folder / "index-omega"), str(self.folder / "default"), str(self.folder / "lcc.script")]

    def found(self, word: str) -> set[str]:
        if not (self.folder / "default").exists():
            return set()
        out = self.run("/usr/lib/cgi-bin/omega/omega", f"P={word}", "FMT=xml", "HITSPERPAGE=1000")
        return set(re.findall(r'^url="([^"]+)"', out, re.MULTILINE))


ENGINES = (SwishE, SwishPlusPlus, HtDig, Omega)
EACH_ENGINE = [
    pytest.param(engine, id=engine.name, marks=() if engine in (SwishE, Omega) else pytest.mark.long)
    for engine in ENGINES
]
"""For tests of whole runs: the two that are packaged most widely always, all in ``make test-long``."""
