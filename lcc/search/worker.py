"""A worker that reads the texts of pages for a search, within the limits of :mod:`lcc.spider.worker`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lcc.domain.fetches.robots_rules import AGENT
from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.search.texts import TYPES, identifier, read_text
from lcc.spider.extractors.found import Document
from lcc.spider.worker import Worker, main


class TextWorker(Worker):
    """Finds texts in place of links."""

    def __init__(self, limits: ExtractionLimits, extractors: Sequence[str] = (), robot: str = AGENT.lower()) -> None:
        super().__init__(limits, extractors, robot)
        self.types = TYPES.keys()
        identifier()  # before memory is limited page by page

    def links(self, document: Document) -> PageLinks:
        """The texts of a document; whatever it does to those who read it is a fault of it, but for a lack of
        memory."""
        try:
            return read_text(document, self.limits, self.robot)
        except MemoryError:
            raise
        except Exception as error:
            return PageLinks(base=document.url, faults=(f"it cannot be read: {error!r}"[:200],))


if __name__ == "__main__":
    main(sys.argv[1], TextWorker)
