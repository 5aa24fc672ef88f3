"""Lists of URIs (RFC 2483, section 5): what a folder of ftp or file is to the robot."""

from __future__ import annotations

from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.interfaces import ILinkExtractor
from lcc.spider.extractors.found import Found


@implementer(IPlugin, ILinkExtractor)
class UriListExtractor:
    """One URI a line; lines that begin with ``#`` are comments."""

    name = "uri-list"
    mimetypes = ("text/uri-list",)

    def extract(self, content: bytes, found: Found) -> None:
        """As :meth:`lcc.interfaces.ILinkExtractor.extract`."""
        if not found.document.whole:
            content = content[: content.rfind(b"\n") + 1]
        for line in content.decode("utf-8", "replace").split("\n"):
            if line.strip() and not line.startswith("#"):
                found.link(line.strip(), "", "", "list")
