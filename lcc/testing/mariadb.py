"""A private MariaDB server for tests: own data folder, own socket, gone afterwards; no network unless asked for.

Needs ``mariadbd`` and ``mariadb-install-db`` (Debian: mariadb-server-core, mariadb-client-core).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import pymysql

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/bin"])
_NOBODY = 65534
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_TLS_FILES = ("key", "cert", "ca")
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 2 << 30


class MariaDbMissing(Exception):
    """There is no MariaDB here, or it does not start."""


class PrivateMariaDb:
    """A server of its own; a context manager.

    :param durable: commits are synced to disk (for benchmarks; tests are faster without).
    :param folder: everything is in a new folder there; None: where temporary files are, or in memory if not durable.
    :param log_mib: size of its redo log, which is there from the start.
    :param port: it listens on ``address``, too; 0: it does not.
    :param tls: PEM files for that port: the server's key, its certificate, and the authority of its clients.
    :ivar folder: everything that it keeps is there; ``data`` of it in a folder below.
    :raises MariaDbMissing: it is not installed, or does not start; the text says what to do.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        folder: Path | None = None,
        log_mib: int = 256,
        port: int = 0,
        tls: tuple[Path, Path, Path] | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self._install = _program("mariadb-install-db")
        self._server = _program("mariadbd")
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        # Socket paths must be shorter than about a hundred characters.
        if folder is None and not durable:
            folder = _memory()
        self.folder = Path(tempfile.mkdtemp(prefix="lcc-mariadb-", dir=folder))
        self._log_mib = log_mib
        self._port = port
        self._address = address
        self._tls = tls
        self.socket = self.folder / "sock"
        self.data = self.folder / "data"
        self._log = self.folder / "log"
        self._databases = 0

    def __enter__(self) -> PrivateMariaDb:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Make the data folder and start the server; returns when it answers."""
        self.install()
        self.start_again()

    def install(self) -> None:
        """Make the data folder."""
        data = self.data
        data.mkdir(mode=0o700)
        if os.getuid() == 0:
            os.chown(self.folder, _NOBODY, _NOBODY)
            os.chown(data, _NOBODY, _NOBODY)
        for name, path in zip(_TLS_FILES, self._tls or (), strict=False):
            copied = self.folder / name
            shutil.copyfile(path, copied)
            if os.getuid() == 0:
                os.chown(copied, _NOBODY, _NOBODY)
        with self._log.open("wb") as output:
            made = subprocess.run(
                [
                    *_unprivileged(),
                    *(self._install, "--no-defaults", f"--datadir={data}", f"--tmpdir={data}"),
                    *("--auth-root-authentication-method=normal", "--skip-test-db"),
                ],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            if made.returncode:
                raise MariaDbMissing(f"mariadb-install-db failed:\n{_tail(self._log)}")

    def start_again(self) -> None:
        """Start the server on what :meth:`kill` has left; returns when it answers."""
        self.launch()
        deadline = time.monotonic() + _START_SECONDS
        while not self.serves():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise MariaDbMissing(f"mariadbd does not start:\n{_tail(self._log)}")
            time.sleep(0.02)
        self.execute("SELECT 1")

    def launch(self) -> None:
        """Start the server on what :meth:`kill` has left, without waiting for it."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def command(self) -> list[str]:
        """What starts the server."""
        data = self.data
        return [
            *_unprivileged(),
            *(self._server, "--no-defaults", f"--datadir={data}", f"--tmpdir={data}"),
            f"--socket={self.socket}",
            *self._network(),
            *("--skip-name-resolve", f"--pid-file={data}/pid"),
            *("--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin"),
            *("--transaction-isolation=READ-COMMITTED", "--innodb-buffer-pool-size=256M"),
            *(f"--innodb-log-file-size={self._log_mib}M", "--performance-schema=OFF"),
            f"--innodb-flush-log-at-trx-commit={1 if self._durable else 0}",
        ]

    def _network(self) -> list[str]:
        if not self._port:
            return ["--skip-networking"]
        arguments = [f"--bind-address={self._address}", f"--port={self._port}"]
        if self._tls is None:
            return [*arguments, "--skip-ssl"]
        return arguments + [f"--ssl-{name}={self.folder / name}" for name in _TLS_FILES]

    def serves(self) -> bool:
        """Whether it can be worked with."""
        return self.listens()

    def listens(self) -> bool:
        """Whether it takes connections."""
        # Not by way of PyMySQL: a connection that it could not make leaves its socket open.
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The server; None: it does not run."""
        return self._process

    def kill(self) -> None:
        """``kill -9``; the data stay, for :meth:`start_again`."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End the server and remove everything."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """End the server in order; the data stay."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        """Run a statement as the administrator; its rows."""
        connection = pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True, charset="utf8mb4")
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def new_database(self) -> str:
        """Make an empty database.

        :returns: its URL, as for ``database.url``.
        """
        self._databases += 1
        name = f"lcc{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        """The URL of a database of this server."""
        return f"mysql://root@localhost/{name}?unix_socket={self.socket}"

    def drop_database(self, url: str) -> None:
        """Remove a database that :meth:`new_database` made."""
        name = url.partition("?")[0].rpartition("/")[2]
        self.execute(f"DROP DATABASE {name}")

    def kill_connections(self) -> int:
        """Close all other connections to the server; gives how many there were."""
        rows = self.execute(
            "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'"
        )
        killed = 0
        for (number,) in rows:
            try:
                self.execute(f"KILL {number}")
                killed += 1
            except pymysql.err.OperationalError:
                pass  # it has just gone by itself
        return killed


def _memory() -> Path | None:
    """A file system in memory with room enough, where making and dropping tables takes a quarter of the time."""
    try:
        room = shutil.disk_usage(_MEMORY).free
    except OSError:
        return None
    return _MEMORY if room >= _MEMORY_BYTES_MIN and os.access(_MEMORY, os.W_OK) else None


def _program(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise MariaDbMissing(
            f"{name} is not installed; on Debian: apt-get install --no-install-recommends"
            " mariadb-server-core mariadb-client-core"
        )
    return found


def _unprivileged() -> list[str]:
    """mariadbd refuses to run as root."""
    if os.getuid() != 0:
        return []
    return [_program("setpriv"), f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-2000:]
