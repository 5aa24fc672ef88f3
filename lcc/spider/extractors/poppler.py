"""Programs of poppler-utils, run on a document in memory.  They have the limits of the worker that runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from threading import Timer
from typing import NamedTuple


class Output(NamedTuple):
    """What a program said.

    :ivar data: its output, or the beginning.
    :ivar cut: there was more.
    :ivar fault: what went wrong, for people; empty: nothing.
    """

    data: bytes
    cut: bool = False
    fault: str = ""


def run_poppler(
    program: str, options: Sequence[str], content: bytes, seconds: float, bytes_max: int, to: Sequence[str] = ()
) -> Output:
    """Run a program on a PDF document.

    :param to: its arguments behind the name of the document.
    :param seconds: after which it is killed; what it has said by then counts.
    """
    descriptor = os.memfd_create("pdf")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        return _run([program, *options, f"/proc/self/fd/{descriptor}", *to], descriptor, seconds, bytes_max)
    finally:
        os.close(descriptor)


def _run(command: list[str], descriptor: int, seconds: float, bytes_max: int) -> Output:
    program = command[0]
    with os.fdopen(os.memfd_create("errors"), "w+b") as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, pass_fds=[descriptor]
            )
        except FileNotFoundError:
            return Output(b"", fault=f"{program} is not installed.  Next: install poppler-utils, then restart")
        late: list[bool] = []

        def kill() -> None:
            late.append(True)
            process.kill()

        timer = Timer(seconds, kill)
        timer.start()
        with process:
            assert process.stdout is not None
            data = process.stdout.read(bytes_max + 1)
            if len(data) > bytes_max:
                process.kill()
        timer.cancel()
        timer.join()
        if len(data) > bytes_max:
            return Output(data[:bytes_max], True)
        if late:
            return Output(data, True, f"{program} took too long")
        if process.returncode:
            errors.seek(0)
            reason = errors.read(4096).decode("utf-8", "replace").strip().rpartition("\n")[2]
            return Output(data, fault=f"{program}: {reason or f'exit code {process.returncode}'}")
        return Output(data)
