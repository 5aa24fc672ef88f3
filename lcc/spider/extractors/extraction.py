"""All links of a page: those of its header, and those that the extractor of its type finds."""

from __future__ import annotations

from collections.abc import Mapping

from lcc.domain.fetches.robots_rules import AGENT
from lcc.interfaces import ILinkExtractor
from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.spider.extractors.found import Document, Found, Full
from lcc.spider.extractors.headers import read_headers


class Extraction:
    """Reads documents.

    :param extractors: media type -> who reads it (:func:`lcc.spider.extractors.registry.extractors_by_type`).
    :param robot: the product token of our user agent, lower case: ``X-Robots-Tag`` may speak to it alone.
    """

    def __init__(
        self, extractors: Mapping[str, ILinkExtractor], limits: ExtractionLimits, robot: str = AGENT.lower()
    ) -> None:
        self._extractors = extractors
        self._limits = limits
        self._robot = robot

    def reads(self, mimetype: str) -> bool:
        """There is an extractor for this type."""
        return mimetype in self._extractors

    def links(self, document: Document) -> PageLinks:
        """What is found in a document; whatever its extractor raises is a fault of it, but for a lack of memory."""
        found = Found(document, self._limits)
        extractor = self._extractors.get(document.mimetype)
        try:
            if document.headers:
                read_headers(document.headers, found, self._robot)
            if extractor is not None and document.content:
                extractor.extract(document.content, found)
        except Full:
            pass
        except MemoryError:
            raise
        except Exception as error:  # whatever its documents make a plugin do
            found.fault(f"the extractor {extractor.name if extractor else 'of headers'} failed: {error!r}")
        return found.result()
