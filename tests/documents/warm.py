"""The tools without their start: a process that has imported all of them forks one for each call.

Pages and examples are some two hundred calls, and most of the time of each would go into importing.  What runs is the
tool itself, in a process of its own, with the folder, variables, input and output of who called it.  (Signals to who
called it do not reach it.)
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
from importlib import import_module
from pathlib import Path

TOOLS = {
    "lcc-admin": "lcc.admin.cli",
    "lcc-export": "lcc.export.cli",
    "file2url": "lcc.provider.file2url",
    "lcccpstate": "lcc.provider.lcccpstate",
    "lcccp": "lcc.provider.lcccp",
    "lccwatch": "lcc.provider.lccwatch",
}
_CLIENT = """#!{python} -SEs
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(call)
    code = server.recv(1)
sys.exit(code[0] if code else 1)
"""


def start(folder: Path) -> Path:
    """Start the process; gives the folder with the programs that call it."""
    programs, address = folder / "bin", folder / "socket"
    programs.mkdir()
    for name in TOOLS:
        program = programs / name
        program.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(address))
    listening.listen(64)
    if not os.fork():
        _serve(listening)
    listening.close()
    return programs


def _serve(listening: socket.socket) -> None:
    from lcc.admin.cli import COMMANDS

    for module in (*TOOLS.values(), *(f"lcc.admin.{place.partition(':')[0]}" for place in COMMANDS.values())):
        import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listening.accept()
        if not os.fork():
            listening.close()
            _answer(connection)
        connection.close()


def _answer(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
    call = b""
    while len(call) < int.from_bytes(length, "big"):
        call += connection.recv(65536)
    name, arguments, folder, environment = json.loads(call)
    worker = os.fork()
    if not worker:
        connection.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [name, *arguments]
        import_module(TOOLS[name]).main()
        sys.exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    _, status = os.waitpid(worker, 0)
    code = os.waitstatus_to_exitcode(status)
    connection.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)
