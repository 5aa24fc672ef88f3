"""Which extractor reads which type."""

from __future__ import annotations

from collections.abc import Sequence

from lcc.interfaces import ILinkExtractor
from lcc.plugins import chosen, installed
from lcc.spider.extractors import plugins


def extractors_by_type(names: Sequence[str] = ()) -> dict[str, ILinkExtractor]:
    """Media type -> the extractor that reads it; of several the first.

    :param names: ``[spider] extractors``, those to use, the preferred ones first; empty: all, those that did not come
        with the LCC first.
    :raises ConfigError: there is none of a name; two have one name.
    """
    found = installed(ILinkExtractor, plugins, "link extractor")
    if names:
        ordered = chosen(names, found, "spider.extractors", "link extractor")
    else:
        ordered = sorted(found.values(), key=lambda each: type(each).__module__.startswith("lcc.spider.extractors."))
    by_type: dict[str, ILinkExtractor] = {}
    for extractor in ordered:
        for mimetype in extractor.mimetypes:
            by_type.setdefault(mimetype, extractor)
    return by_type
