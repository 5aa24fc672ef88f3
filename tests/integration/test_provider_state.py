"""The provider's state file and a real LCC: what is live stays, what was not taken or not fetched is told again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import attrs
import pytest

from lcc.provider.statefile import read_entries, told_digest
from tests.support.processes.system import BIN, Site, System
from tests.support.waiting import PATIENCE_SECONDS, wait_for

from .databases import SQLITE_ALWAYS

PAGES = ("~a.html", "é.html", *(f"p{number}.html" for number in range(10)))


@attrs.define
class Provider:
    """A site whose web server and whose list of files are not the same folder.

    :ivar folder: what file2url sees.
    """

    system: System
    site: Site
    folder: Path

    def publish(
        self, filters: str = "cat", *, code: int = 0, state: str = "", cp: str = "", prefix: str | None = None
    ) -> str:
        """Run the three tools, with a filter behind the first; gives all that they said."""
        line = (
            f"set -o pipefail; {BIN}/file2url --find {self.folder} -type f | {filters}"
            f" | {BIN}/lcccpstate --statefile={self.site.state} {state}"
            f" | {BIN}/lcccp --uns=127.0.0.1:{self.system.port} --pid={self.site.pid}"
            f" --urlprefix={self.site.url if prefix is None else prefix} {cp}"
        )
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
            env=dict(self.system.environment, LCC_PASSWORD=self.site.password),
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def settle(self) -> None:
        """Wait until the queue is empty."""
        wait_for("the queue is empty", lambda: self.system.rows("queue") == [])

    def cached(self) -> list[str]:
        """The pages in the cache."""
        return sorted(self.system.cached(self.site))

    def changes(self, token: str) -> tuple[list[str], str]:
        """What became of pages since, as ``state page``, and the next token."""
        *rows, last = self.system.rows("urls", "--since", token)
        return [f"{row['state']} {row['curl'].removeprefix(self.site.url)}" for row in rows], str(last["next"])


def provider(system: System, *options: str) -> Provider:
    """One of twelve pages, on its web server and here."""
    folder, served = system.folder / "docroot", system.origin.root / "site"
    folder.mkdir()
    served.mkdir()
    for name in PAGES:
        (folder / name).write_text(f"<html>{name}</html>")
        (served / quote(name)).write_text(f"<html>{name}</html>")  # the origin looks for names as they are asked for
    system.start("all")
    one = Provider(system, system.add_site("site", *options), folder)
    wait_for("the LCC listens", lambda: _listens(one))
    return one


def _listens(one: Provider) -> bool:
    line = f"{BIN}/lcccp --uns=127.0.0.1:{one.system.port} --pid={one.site.pid} --check"
    environment = dict(one.system.environment, LCC_PASSWORD=one.site.password)
    return subprocess.run(["bash", "-c", line], capture_output=True, env=environment, check=False).returncode == 0


def version_1(state: Path) -> None:
    """Make the state file what version 0.1.0 would have written: all names are spelled as file2url does."""
    docroot = state.parent / "docroot"
    text = subprocess.run(
        [BIN / "file2url", "--find", docroot, "-type", "f"], capture_output=True, text=True, check=True
    ).stdout
    elements = [
        dict(pair.split("=", 1) for pair in line[5:-2].replace('"', "").split())
        for line in text.splitlines()
        if line.startswith("<url ")
    ]
    assert len(elements) == len(list(read_entries(state)))
    lines = [f"{told_digest(element)} {json.dumps([element['c'], element['m']])}\n" for element in elements]
    state.write_text(f"lcc-state 1 t\n{''.join(lines)}end {len(lines)}\n")


@SQLITE_ALWAYS
def test_no_spelling_deletes_a_live_page(system: System) -> None:
    one = provider(system)
    one.publish()
    one.settle()
    before = one.cached()
    assert len(before) == len(PAGES)
    _, token = one.changes("")

    def unharmed() -> str:
        nonlocal token
        one.settle()
        assert one.cached() == before
        told, token = one.changes(token)
        assert not [line for line in told if line.startswith("deleted")], told
        return " ".join(told)

    version_1(one.site.state)
    respelled = (
        "cat",
        """sed 's|m="text/html"|m="Text/HTML; charset=utf-8"|; s|~|%7e|; s|%C3%A9|é|'""",
        f"""sed 's|c="|c="{one.site.url.replace("http", "HTTP")}./x/../|'""",
    )
    for respell in respelled:
        said = one.publish(respell)
        unharmed()
        assert "nothing has changed" in said
    # Without any help: a state of version 1, and names that are whole URLs of a sudden.
    version_1(one.site.state)
    one.publish(f"""sed 's|c="|c="{one.site.url}|'""", state="--allow-mass-delete")
    assert unharmed() == ""
    # All of them, with half of the site gone at the same time.
    for name in PAGES[:4]:
        (one.folder / name).unlink()
    assert "4 of them deletions" in one.publish()
    one.settle()
    assert one.cached() == sorted(PAGES[4:])


@pytest.mark.long
def test_a_wrong_prefix_costs_nothing(system: System) -> None:
    one = provider(system)
    wrong = f"{one.site.url}../elsewhere/"
    # Refused: it counts as not told.
    said = one.publish(prefix=wrong, code=1)
    assert (
        "12 URLs were refused" in said and "the next run of lcccpstate and lcccp submits refused URLs again" in said
    )
    assert "12 URLs were refused" in one.publish(prefix=wrong, code=1)
    assert "accepted: a set of 12 URLs, all valid" in one.publish()
    one.settle()
    assert len(one.cached()) == len(PAGES)
    # Now the names are known behind the right one.
    (one.folder / PAGES[2]).write_text("<html>changed</html>")
    state = one.site.state.read_bytes()
    said = one.publish(prefix=wrong, code=2)
    assert f"is of URLs behind {one.site.url}, and --urlprefix is {wrong}; nothing was sent" in said
    assert "1106" in one.publish(prefix=wrong, state="--full", code=3)
    assert one.site.state.read_bytes() == state and len(one.cached()) == len(PAGES)
    shutil.copyfile(one.folder / PAGES[2], system.origin.root / "site" / PAGES[2])
    assert "accepted: a set of 1 URL, valid" in one.publish()
    assert "nothing has changed" in one.publish()
    # One page is refused, until it is mended.
    mistake = f'sed \'s|"{PAGES[3]}" m="text/html"|"{PAGES[3]}" m="video/x"|\''
    (one.folder / PAGES[3]).write_text("<html>changed</html>")
    for _ in range(2):
        assert "1 URL was refused" in one.publish(mistake, code=1)
    (system.origin.root / "site" / PAGES[3]).write_text("<html>changed</html>")
    assert "valid" in one.publish()
    one.settle()
    assert len(one.cached()) == len(PAGES)


@pytest.mark.long
def test_what_could_not_be_fetched_is_told_again(system: System) -> None:
    one = provider(system)
    for name in ("new1.html", "new2.html", "new3.html"):
        (one.folder / name).write_text("<html>new</html>")
    one.publish()
    one.settle()
    # 404, told when it is shown; again once the run after that has said so, and so on.
    wait_for("the errors are known", lambda: "3 of earlier fetches" in _check(one))
    said = one.publish()
    assert "404" in said and "3 of these URLs are submitted again by the next run" in said
    assert "nothing has changed" in said
    said = one.publish()
    assert "3 URLs that could not be fetched: submitted again" in said and "a set of 3 URLs" in said
    wait_for("the errors are known", lambda: "3 of earlier fetches" in _check(one))
    # From now on with a growing wait, unless somebody says that it is worth it.
    assert "3 of these URLs are submitted again" in one.publish()
    system.admin("provider", "set", str(one.site.pid), "--files-max", "13")
    served = system.origin.root / "site"
    for name in ("new1.html", "new2.html", "new3.html"):
        (served / name).write_text("<html>new</html>")
    one.publish(state="--retry-failed")
    # There is room for one of them only.
    wait_for("the errors are known", lambda: "2 of earlier fetches" in _check(one))
    wait_for("one of them is there", lambda: len(one.cached()) == 13)
    said = one.publish()
    assert "1501" in said and "2 of these URLs are submitted again" in said
    assert "2 URLs wait for room in the quota" in one.publish()
    said = one.publish()
    assert "2 URLs wait for room in the quota" in said and "nothing else has changed" in said
    system.admin("provider", "set", str(one.site.pid), "--files-max", "14")
    said = wait_for("one of them is told", lambda: _if("a set of 1 URL", one.publish()))
    assert "1 URL that could not be fetched: submitted again" in said and "1 URL waits for room" in said
    system.admin("provider", "set", str(one.site.pid), "--files-max", "none")
    one.publish()
    wait_for("all of them are there", lambda: len(one.cached()) == 15)
    assert "nothing has changed" in one.publish()


def _check(one: Provider) -> str:
    line = f"{BIN}/lcccp --uns=127.0.0.1:{one.system.port} --pid={one.site.pid} --check"
    environment = dict(one.system.environment, LCC_PASSWORD=one.site.password)
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=True).stdout


def _if(part: str, text: str) -> str:
    return text if part in text else ""
