"""A program that forks roles instead of starting them: it has imported all their modules already.

``python -m tests.support.processes.fork_server`` answers each line of JSON on its standard input with one on its
standard output (:class:`tests.support.processes.starting.ForkServer`):

* ``{"command": [TWISTD, ...], "folder": ..., "log": ..., "environment": {...}}``: forks a process that becomes that
  command, as ``twistd`` itself would run it; its process id;
* ``{"ended": PID}``: its exit code as of :class:`subprocess.Popen`; null while it runs.  A process that has ended
  keeps its id until somebody has asked.

It has no reactor, no thread, and no other file open.  Once its standard input ends it kills what it has forked.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
from typing import Any

MODULES = ("twisted.scripts.twistd", "twisted.internet.epollreactor", "twisted.plugins.lcc_plugins")
PACKAGES = ("lcc.services",)
"""All modules of these."""


def load() -> None:
    """Import what the roles need."""
    for name in MODULES:
        importlib.import_module(name)
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    # Collections in the children leave these objects, and so the memory that all share, alone.
    gc.collect()
    gc.freeze()


def serve() -> dict[str, Any] | None:
    """Answer until the standard input ends; in a child: gives what this is to become."""
    children = set()
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        if "command" in asked:
            answer: int | None = os.fork()
            if not answer:
                return dict(asked)
            children.add(answer)
        else:
            answer = _ended(asked["ended"])
            if answer is not None:
                children.discard(asked["ended"])
        print(json.dumps(answer), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return None


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def become(order: dict[str, Any]) -> None:
    """Be what a plain start would have made of this process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for number, opened in enumerate((nothing, log, log)):
        os.dup2(opened, number)
    os.closerange(3, max(nothing, log) + 1)
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    sys.argv = order["command"]
    from twisted.scripts.twistd import run

    run()


def main() -> None:
    """Serve; or be a role."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: whoever has started it ends it
    load()
    print(json.dumps("loaded"), flush=True)
    order = serve()
    if order is not None:
        become(order)


if __name__ == "__main__":
    main()
