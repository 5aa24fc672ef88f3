"""A private vsftpd: unprivileged, on loopback, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.ports import free_port, listens

_NOBODY = 65534
_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
_START_SECONDS = 30.0

_SETTINGS = {
    "run_as_launching_user": "YES",
    "anonymous_enable": "YES",
    "local_enable": "NO",
    "background": "NO",
    "ftp_username": "nobody",
    "xferlog_enable": "YES",
    "log_ftp_protocol": "YES",
    "seccomp_sandbox": "NO",
    "isolate": "NO",
    "isolate_network": "NO",
}


class PrivateVsftpd:
    """The server; a context manager.

    :param changes: settings of vsftpd.conf.
    :ivar root: the folder that it serves.
    """

    def __init__(self, address: str = "127.0.0.1", **changes: str) -> None:
        # Not below pytest's folders: those are for their owner only, and vsftpd does not run as root.
        self.folder = Path(tempfile.mkdtemp(prefix="vsftpd-"))
        self.folder.chmod(0o755)
        self.root = self.folder / "root"
        (self.root / "pub").mkdir(parents=True)
        (self.folder / "empty").mkdir()
        self._log = self.folder / "log"
        self._log.touch(mode=0o666)
        self._log.chmod(0o666)
        six = ":" in address
        self.port = free_port(address)
        self.base = f"ftp://[{address}]:{self.port}" if six else f"ftp://{address}:{self.port}"
        self._address = address
        settings = {
            **_SETTINGS,
            "anon_root": str(self.root),
            "secure_chroot_dir": str(self.folder / "empty"),
            "vsftpd_log_file": str(self._log),
            "listen_ipv6" if six else "listen": "YES",
            "listen" if six else "listen_ipv6": "NO",
            "listen_address6" if six else "listen_address": address,
            "listen_port": str(self.port),
            **changes,
        }
        self._configuration = self.folder / "vsftpd.conf"
        self._configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def __enter__(self) -> PrivateVsftpd:
        program = shutil.which("vsftpd", path=_PATH)
        assert program, "vsftpd is not installed; run 'make system'"
        command = [program, str(self._configuration)]
        if os.getuid() == 0:
            # It refuses a configuration of another user.
            os.chown(self._configuration, _NOBODY, _NOBODY)
            command = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *command]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        end = time.monotonic() + _START_SECONDS
        while not listens(self.port, self._address):
            if self._process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise AssertionError(f"vsftpd does not start: {self._output!r}")
            time.sleep(0.02)
        while "CONNECT" not in self.log():
            time.sleep(0.02)
        self._log.write_text("")
        return self

    def __exit__(self, *_: object) -> None:
        # Each connection has a process of its own; its parent must live to see it end.
        listening = self._process.pid
        children = Path(f"/proc/{listening}/task/{listening}/children")
        while self._process.poll() is None and (running := children.read_text().split()):
            for child in running:
                try:
                    os.kill(int(child), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        self._process.kill()
        self._output = self._process.communicate()[0]
        shutil.rmtree(self.folder, ignore_errors=True)

    def put(self, name: str, content: bytes, modified: int | None = None) -> Path:
        """Make a file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if modified is not None:
            os.utime(path, (modified, modified))
        return path

    def log(self) -> str:
        """What it has logged, the protocol included."""
        return self._log.read_text("latin-1")

    @property
    def connections(self) -> int:
        """Control connections so far."""
        return self.log().count("CONNECT: Client")
