"""The launcher: the process that forks a shepherd for each job of a manager.

The manager starts it with one socket (descriptor 0), and sends a :class:`~lcc.workers.launch.Launch` for each job.
Being small, it forks in a millisecond; and it is the *template* of workers in Python of our own: what they need is
imported here once (the modules that are its arguments), and is there in each fork.

It holds a lock (descriptor 1) that its shepherds inherit, and workers do not: as long as anybody has it, a job of
this manager may be running, and no other manager begins.  Descriptor 2 leads into the manager's log.

When the manager is gone it ends; the shepherds have seen that as well, and end their jobs.  Processes whose shepherd
was killed become its children, and are killed.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

from lcc.workers import linux
from lcc.workers.launch import REQUEST_BYTES_MAX, Launch
from lcc.workers.shepherd import moved_up, tend

REQUESTS = 0
LOCK = 1
_DESCRIPTORS = 3
_CLEAN_SECONDS = 0.002


def main(arguments: list[str]) -> None:
    """Serve a manager until it is gone."""
    os.setsid()  # a Ctrl-C is for the manager, which ends jobs in order
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its manager
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    linux.adopt_orphans()
    for module in arguments:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what is never collected is never copied
    _Launcher().run()


class _Launcher:
    def __init__(self) -> None:
        self._requests = socket.socket(fileno=os.dup(REQUESTS))
        self._shepherds: set[int] = set()
        self._woken, waking = socket.socketpair()
        waking.setblocking(False)
        self._woken.setblocking(False)
        self._waking = waking
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._woken.fileno() in ready:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
            if self._requests.fileno() in ready and not self._take():
                break
            self._reap()
        # The shepherds have lost the manager as well.  They are waited for, for what they might leave.
        while self._reap():
            time.sleep(_CLEAN_SECONDS)

    def _take(self) -> bool:
        """Start what is asked for; False: nobody asks any longer."""
        data, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, _DESCRIPTORS)
        if not data:
            return False
        received = [moved_up(each) for each in descriptors]
        try:
            output, descriptor, control = received
            pid = os.fork()
        except (OSError, ValueError) as error:
            # The shepherd's socket closes without a word: the manager takes that for a job that could not begin.
            print(f"cannot fork: {error}", file=sys.stderr, flush=True)
        else:
            if pid == 0:
                self._be_shepherd(data, output, descriptor, control)
            self._shepherds.add(pid)
        for each in received:
            os.close(each)
        return True

    def _be_shepherd(self, data: bytes, output: int, descriptor: int, control: int) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            self._requests.close()
            self._woken.close()
            self._waking.close()
            # The lock (descriptor 1) stays open.
            os.dup2(os.open(os.devnull, os.O_RDONLY), REQUESTS)
            tend(Launch.from_bytes(data), output, descriptor, socket.socket(fileno=control))
            code = 0
        except BaseException as error:
            with suppress(Exception):
                print(f"a shepherd failed: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def _reap(self) -> bool:
        """Take leave of shepherds that have ended; kill the orphans of those that were killed.  Whether anybody is
        left."""
        orphans_likely = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                break
            orphans_likely = orphans_likely or status != 0 or pid not in self._shepherds
            self._shepherds.discard(pid)
        if not orphans_likely:
            return True
        orphans = {pid for pid, parent in linux.parents().items() if parent == os.getpid()} - self._shepherds
        for orphan in orphans:
            linux.kill_descendants(orphan)
            linux.send_signal(orphan, signal.SIGKILL)
        return True


if __name__ == "__main__":
    main(sys.argv[1:])
