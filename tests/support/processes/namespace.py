"""Network namespaces: hosts of a test, each with a network of its own."""

from __future__ import annotations

import os
import subprocess


class NoNetwork(Exception):
    """This machine does not let tests make networks, and why."""


class Namespace:
    """A network of its own, without a device but loopback.  It is gone when this process is.

    :raises NoNetwork: it cannot be made.
    """

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise NoNetwork("only root may make network namespaces")
        # It is there as long as this process.
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._holder.stdin is not None and self._holder.stdout is not None
        self._holder.stdin.write(b"\n")
        self._holder.stdin.flush()
        if not self._holder.stdout.read(1):
            self.close()
            raise NoNetwork("no network namespace can be made here")

    @property
    def pid(self) -> int:
        """Of a process that is there."""
        return self._holder.pid

    @property
    def on(self) -> list[str]:
        """What stands before a command that is to run there."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def ip(self, command: str) -> None:
        """Run ``ip`` there.

        :raises NoNetwork: it fails.
        """
        ip(command, self.on)

    def close(self) -> None:
        """End it; processes that still run there keep it."""
        self._holder.kill()
        self._holder.communicate()


def ip(command: str, on: list[str] | None = None) -> None:
    """Run ``ip`` on this machine, or where ``on`` says.

    :raises NoNetwork: it fails.
    """
    done = subprocess.run([*(on or []), "ip", *command.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNetwork(f"ip {command}: {done.stderr.strip()}")
