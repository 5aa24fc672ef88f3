"""Links of PDF documents, as ``pdfinfo -url`` (poppler-utils) tells them."""

from __future__ import annotations

import os
import subprocess

from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.interfaces import ILinkExtractor
from lcc.spider.extractors.found import Found

PROGRAM = "pdfinfo"
OUTPUT_BYTES_MAX = 4 << 20


@implementer(IPlugin, ILinkExtractor)
class PdfExtractor:
    """Finds the URLs of annotations.  The program has the limits of the worker that runs it."""

    name = "pdf"
    mimetypes = ("application/pdf", "application/x-pdf")

    def extract(self, content: bytes, found: Found) -> None:
        """As :meth:`lcc.interfaces.ILinkExtractor.extract`."""
        if not found.document.whole:
            found.fault("the document is cut: a PDF is read from its end")
            return
        descriptor = os.memfd_create("pdf")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(content)
            output = self._run(descriptor, found)
        finally:
            os.close(descriptor)
        for line in output.decode("utf-8", "replace").splitlines()[1:]:
            # Page, type of the annotation, URL.
            fields = line.split(None, 2)
            if len(fields) == 3 and fields[0].isdigit():
                found.link(fields[2], "", "", "pdf")

    def _run(self, descriptor: int, found: Found) -> bytes:
        path = f"/proc/self/fd/{descriptor}"
        try:
            done = subprocess.run(
                [PROGRAM, "-url", path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=[descriptor],
                timeout=found.limits.page_seconds / 2,
                check=False,
            )
        except FileNotFoundError:
            found.fault("pdfinfo is not installed.  Next: install poppler-utils, then restart the spider")
            return b""
        except subprocess.TimeoutExpired:
            found.fault("pdfinfo took too long")
            return b""
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            found.fault(f"pdfinfo: {reason or f'exit code {done.returncode}'}")
        if len(done.stdout) > OUTPUT_BYTES_MAX:
            found.truncated = True
        return done.stdout[:OUTPUT_BYTES_MAX]
