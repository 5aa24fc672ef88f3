"""Links of PDF documents, as ``pdfinfo -url`` (poppler-utils) tells them."""

from __future__ import annotations

from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.interfaces import ILinkExtractor
from lcc.spider.extractors.found import Found
from lcc.spider.extractors.poppler import PDF_TYPES, run_poppler

PROGRAM = "pdfinfo"
OUTPUT_BYTES_MAX = 4 << 20


@implementer(IPlugin, ILinkExtractor)
class PdfExtractor:
    """Finds the URLs of annotations."""

    name = "pdf"
    mimetypes = PDF_TYPES

    def extract(self, content: bytes, found: Found) -> None:
        """As :meth:`lcc.interfaces.ILinkExtractor.extract`."""
        if not found.document.whole:
            found.fault("the document is cut: a PDF is read from its end")
            return
        output = run_poppler(PROGRAM, ["-url"], content, found.limits.page_seconds / 2, OUTPUT_BYTES_MAX)
        if output.fault:
            found.fault(output.fault)
        found.truncated = found.truncated or output.cut
        for line in output.data.decode("utf-8", "replace").splitlines()[1:]:
            # Page, type of the annotation, URL.
            fields = line.split(None, 2)
            if len(fields) == 3 and fields[0].isdigit():
                found.link(fields[2], "", "", "pdf")
