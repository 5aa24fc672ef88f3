"""``make demo``: a whole LCC at work, on real pages, explained as it goes.

Everything happens in a temporary folder and on loopback, as whoever runs it; nothing is left behind.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from lcc.config import load_config
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.tables.status import last_change

HERE = Path(__file__).resolve().parent
TOOLS = Path(sys.executable).parent
PAGES_MIN = 300
WAIT_SECONDS = 90.0
LATEST_WORD = "zymurgy"
_step_numbers = count(1)


class DemoFailed(Exception):
    """Something did not happen that should have."""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="lcc-demo-"))
    try:
        Demo(folder).run()
    except KeyboardInterrupt:
        print("\nInterrupted.")
        return 130
    except (DemoFailed, subprocess.CalledProcessError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        show_log(folder / "twistd.log")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\nEverything was stopped and removed.  The README explains how to install and run an LCC.")
    return 0


class Demo:
    """The steps, in order; each tells what it does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.config = folder / "lcc.toml"
        self.uns_port = free_port()
        self.search = f"http://127.0.0.1:{free_port()}/"
        self.pid = 0
        self.environment = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}"}

    def run(self) -> None:
        self.make_pages()
        with web_server(self.site) as web_port:
            self.prefix = f"http://127.0.0.1:{web_port}/"
            self.configure()
            with self.lcc():
                self.register()
                token = self.publish_all()
                self.publish_changes(token)
                self.measure_one_change()
                self.search_pages()
                step("Stopping", "You may stop or kill any role at any moment; nothing accepted is ever lost.")

    def make_pages(self) -> None:
        step(
            "A site to publish",
            "pydoc writes the documentation of Python's standard library, a page for each module.",
        )
        parts = min(4, os.cpu_count() or 1)
        writers = [
            subprocess.Popen([sys.executable, HERE / "pages.py", self.site, str(part), str(parts)], cwd=self.folder)
            for part in range(parts)
        ]
        try:
            for writer in writers:
                writer.wait()
        finally:
            for writer in writers:
                writer.kill()
        pages = self.pages()
        size_bytes = sum(page.stat().st_size for page in pages)
        say(f"{len(pages)} pages, {size_bytes / 1e6:.1f} MB, on a web server on loopback.")
        if len(pages) < PAGES_MIN:
            raise DemoFailed(f"at least {PAGES_MIN} pages were expected")

    def pages(self) -> list[Path]:
        return sorted(self.site.rglob("*.html"))

    def configure(self) -> None:
        step("An LCC", "One file configures all roles; every setting has a default: SQLite, all in one home folder.")
        self.config.write_text(
            f'home = "home"\n\n[uns]\nlisten = "tcp:{self.uns_port}:interface=127.0.0.1"\n\n'
            f'[search]\nlisten = "tcp:{urlsplit(self.search).port}:interface=127.0.0.1"\nopen = true\n'
        )
        say(f"lcc.toml:\n{indent(self.config.read_text())}")
        self.shell("lcc-admin --config lcc.toml init")

    @contextmanager
    def lcc(self) -> Iterator[None]:
        """A running LCC: all roles in one twistd."""
        command = "twistd --nodaemon --pidfile= --logfile=twistd.log lcc --config lcc.toml"
        say(f"$ {command} &")
        # In a session of its own, so that Ctrl-C reaches it only through us.
        process = subprocess.Popen(
            shlex.split(command), cwd=self.folder, env=self.environment, start_new_session=True
        )
        try:
            self.wait_for("the LCC to listen", lambda: listening(self.uns_port, process))
            yield
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def register(self) -> None:
        step("A provider", "Only registered providers may submit changes, and only of URLs under their roots.")
        output = self.shell(
            f"lcc-admin --config lcc.toml provider add --root {self.prefix} --allow-private --json", quiet=True
        )
        registered = json.loads(output)
        self.pid = registered["pid"]
        say(f'{{"pid": {self.pid}, "password": "…"}}  (the password is shown only this once)')
        secret = self.folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(registered["password"] + "\n")
        self.password = registered["password"]

    def publish(self) -> None:
        """Send what was added, changed or deleted since the last time."""
        self.shell(
            "file2url --find site -name '*.html' | lcccpstate --statefile=state.txt | lcccp "
            f"--uns=127.0.0.1:{self.uns_port} --pid={self.pid} --pwd-file=password --urlprefix={self.prefix}"
        )

    def publish_all(self) -> str:
        """Publish everything; a token for what happens from then on."""
        step("Publishing", "The provider's tools list the site, select what is new, and notify the LCC.  It fetches.")
        began = time.monotonic()
        self.publish()
        expected = len(self.pages())
        with self.database() as database:
            self.wait_for(
                f"{expected} pages in the cache",
                lambda: database.interact(last_change) >= expected,
            )
        say(f"{expected} pages were listed, submitted, fetched and cached in {time.monotonic() - began:.1f} s.")
        self.shell("lcc-admin --config lcc.toml queue")
        output = self.shell("lcc-admin --config lcc.toml urls --since 0 --json", quiet=True)
        rows = [json.loads(line) for line in output.splitlines()]
        example = rows[0]
        say(f"{len(rows) - 1} rows; the first of them:\n{indent(json.dumps(example, indent=1))}")
        if Path(example["path"]).stat().st_size != example["len"]:
            raise DemoFailed(f"{example['path']} is not as long as its row says")
        say("The last line is a token.  With it a content user later gets the changes since then.")
        return str(rows[-1]["next"])

    def publish_changes(self, token: str) -> None:
        pages = self.pages()
        changed, deleted = pages[10:13], pages[20:22]
        names = ", ".join(page.stem for page in changed)
        step("Changes", f"Now {names} get a new line, and {' and '.join(p.stem for p in deleted)} are removed.")
        for page in changed:
            with page.open("a") as file:
                file.write("<p>A new line.</p>\n")
        for page in deleted:
            page.unlink()
        say("Only these five are submitted:")
        with self.database() as database:
            before = database.interact(last_change)
            self.publish()
            self.wait_for("the five changes", lambda: database.interact(last_change) >= before + 5)
        say("A content user with the token gets:")
        self.shell(f"lcc-admin --config lcc.toml urls --since {token}")

    def measure_one_change(self) -> None:
        step("How fast", "One page changes.  A provider that stays connected sends this, in the protocol itself:")
        page = self.pages()[0]
        with page.open("a") as file:
            file.write(f"<p>The latest line has the word {LATEST_WORD}.</p>\n")
        url = self.prefix + str(page.relative_to(self.site))
        message = f'<l:set set="partial"><url c="{url}" m="text/html"/></l:set>'
        say(indent(message))
        with self.database() as database, socket.create_connection(("127.0.0.1", self.uns_port)) as connection:
            connection.settimeout(30)
            before = database.interact(last_change)
            connection.sendall(
                f'<l:init xmlns:l="http://www.lococa.org/1.0"><provider id="{self.pid}" passwd="{self.password}"/>'
                "</l:init>".encode()
            )
            read_until(connection, b"</l:init_accepted>")
            told = time.monotonic()
            connection.sendall(message.encode())
            read_until(connection, b"</l:set_result>")
            accepted = time.monotonic()
            self.wait_for("the change", lambda: database.interact(last_change) > before, every_seconds=0.001)
            cached = time.monotonic()
            self.wait_for("the word to be found", lambda: self.found(LATEST_WORD) == 1, every_seconds=0.02)
            findable = time.monotonic()
        say(
            f"accepted, on stable storage, after {1000 * (accepted - told):.0f} ms; fetched and in the cache "
            f"{1000 * (cached - told):.0f} ms after the notification; found by the search after "
            f"{1000 * (findable - told):.0f} ms."
        )

    def search_pages(self) -> None:
        step("Searching", "The search server follows the cache like any content user, and has indexed all pages.")
        self.shell("lcc-admin --config lcc.toml search --limit 3 socket server")
        query = urlencode({"q": "socket server", "format": "json"})
        say(f"The same for programs: {self.search}search?{query} ({self.found('socket server')} hits)")
        say(f"And for people, in a browser: {self.search}search?q=socket+server")
        if sys.stdin.isatty() and sys.stdout.isatty():
            input("   Press Enter to stop.  ")

    def found(self, text: str) -> int:
        """How many pages a search finds."""
        query = urlencode({"q": text, "format": "json"})
        try:
            with urlopen(f"{self.search}search?{query}", timeout=WAIT_SECONDS) as reply:
                return int(json.load(reply)["total"])
        except URLError:  # it does not listen yet, or its index is not open yet
            return -1

    @contextmanager
    def database(self) -> Iterator[Any]:
        """A look into the LCC's database, as lcc-admin has it."""
        config = load_config(self.config)
        database = BlockingDatabase(config.database.url, config.home, config.database, random=Random())
        try:
            yield database
        finally:
            database.close()

    def shell(self, command: str, quiet: bool = False) -> str:
        """Show a command and run it; its output, when it is quiet."""
        say(f"$ {command}")
        sys.stdout.flush()
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            check=True,
            text=True,
            stdout=subprocess.PIPE if quiet else None,
        )
        return done.stdout or ""

    def wait_for(self, what: str, happened: Callable[[], Any], every_seconds: float = 0.05) -> None:
        """Wait until something has happened."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                raise DemoFailed(f"waited {WAIT_SECONDS:.0f} seconds for {what}")
            time.sleep(every_seconds)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files with connections kept open, and says nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def web_server(folder: Path) -> Iterator[int]:
    """A web server on loopback over this folder; gives its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether somebody listens on this port."""
    if process.poll() is not None:
        raise DemoFailed(f"twistd ended with code {process.returncode}")
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def read_until(connection: socket.socket, end: bytes) -> bytes:
    """What the UNS says, up to and including this end tag."""
    received = b""
    while end not in received:
        data = connection.recv(65536)
        if not data:
            raise DemoFailed(f"the UNS closed the connection: {received.decode(errors='replace')}")
        received += data
    return received


def step(title: str, text: str) -> None:
    """Head a step."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{next(_step_numbers)}. {title}{plain}\n   {text}", flush=True)


def say(text: str) -> None:
    """Tell something within a step."""
    print("   " + text.replace("\n", "\n   "), flush=True)


def indent(text: str) -> str:
    """Text set off from what is around it."""
    return re.sub(r"^", "    ", text.rstrip(), flags=re.MULTILINE)


def show_log(path: Path) -> None:
    """The end of the LCC's log."""
    if path.exists():
        print("The last lines of its log:", file=sys.stderr)
        print(indent("\n".join(path.read_text(errors="replace").splitlines()[-20:])), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
