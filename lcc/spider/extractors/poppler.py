"""Programs of poppler-utils, run on a document in memory.  They have the limits of the process that runs them."""

from __future__ import annotations

import html
import os
import re
import resource
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from threading import Timer
from typing import NamedTuple

from lcc.feeds.plain import squeezed

PDF_TYPES = ("application/pdf", "application/x-pdf")
TEXT_PROGRAM = "pdftotext"
_BYTES_A_CHAR = 4
_TITLE = re.compile("<title>(.*?)</title>", re.DOTALL)


class Output(NamedTuple):
    """What a program said.

    :ivar data: its output, or the beginning.
    :ivar cut: there was more.
    :ivar fault: what went wrong, for people; empty: nothing.
    """

    data: bytes
    cut: bool = False
    fault: str = ""


class PdfText(NamedTuple):
    """The text of a PDF document.

    :ivar cut: there was more.
    :ivar fault: why it could not be read, or not to its end; empty: it could.
    """

    title: str
    text: str
    cut: bool
    fault: str


def pdf_text(content: bytes, seconds: float, chars_max: int, memory_bytes: int = 0) -> PdfText:
    """Title and text of a PDF document.

    :param seconds: after which no more is read.
    :param memory_bytes: as of :func:`run_poppler`.
    """
    output = run_poppler(
        TEXT_PROGRAM,
        ["-q", "-enc", "UTF-8", "-nopgbrk", "-htmlmeta"],
        content,
        seconds,
        chars_max * _BYTES_A_CHAR,
        ["-"],
        memory_bytes,
    )
    # Of its HTML only the title is: the text between the tags is as it stands in the document.
    head, _, body = output.data.decode("utf-8", "replace").partition("<pre>\n")
    text = body if output.cut else body.rpartition("</pre>")[0]
    title = _TITLE.search(head)
    return PdfText(
        html.unescape(title[1]) if title else "",
        squeezed(text[:chars_max]),
        output.cut or len(text) > chars_max,
        output.fault,
    )


def run_poppler(
    program: str,
    options: Sequence[str],
    content: bytes,
    seconds: float,
    bytes_max: int,
    to: Sequence[str] = (),
    memory_bytes: int = 0,
) -> Output:
    """Run a program on a PDF document.

    :param to: its arguments behind the name of the document.
    :param seconds: after which it is killed; what it has said by then counts.
    :param memory_bytes: that it may take; 0: as much as this process may.
    """
    descriptor = os.memfd_create("pdf")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        return _run(
            [program, *options, f"/proc/self/fd/{descriptor}", *to], descriptor, seconds, bytes_max, memory_bytes
        )
    finally:
        os.close(descriptor)


def _run(command: list[str], descriptor: int, seconds: float, bytes_max: int, memory_bytes: int) -> Output:
    program = command[0]
    with os.fdopen(os.memfd_create("errors"), "w+b") as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, pass_fds=[descriptor]
            )
        except FileNotFoundError:
            return Output(b"", fault=f"{program} is not installed.  Next: install poppler-utils, then restart")
        if memory_bytes:
            with suppress(ProcessLookupError):
                # It has hardly begun.  Before its start only this process, which may have threads, could set it.
                resource.prlimit(process.pid, resource.RLIMIT_AS, (memory_bytes, memory_bytes))
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
