"""The feed plugin: RSS, Atom and JSON Feed."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lcc.domain.push.websub import links_of_headers
from lcc.feeds.encodings import media_type
from lcc.feeds.jsonfeed import looks_like_json, parse_json_feed
from lcc.feeds.parsing import parse_feed, require_feed
from lcc.feeds.run import FeedRun
from lcc.feeds.web import UrlPlugin
from lcc.model.feeds import FeedInfo, FeedItem, FeedLink, ParsedFeed


class FeedPlugin(UrlPlugin):
    """Parses feeds; stores nothing, which is good for a look at one."""

    name = "feed"
    summary = "url, and parses RSS, Atom and JSON Feed; stores nothing"

    def parse(self, run: FeedRun, data: bytes) -> tuple[FeedInfo, Sequence[FeedItem]]:
        """Feed info and items of a feed document."""
        parsed = self.parsed(run, data)
        for fault in parsed.faults:
            run.log(fault)
        # Where both name a hub, the header's is the right one (WebSub, section 4).
        links = [FeedLink(url, rel) for rel, url in links_of_headers(run.links.split("\n"), run.base)]
        hubs = tuple(link for link in links if link.rel in ("hub", "self"))
        return attrs.evolve(parsed.info, links=(*hubs, *parsed.info.links)), parsed.items

    def parsed(self, run: FeedRun, data: bytes) -> ParsedFeed:
        """The document, by its format."""
        if looks_like_json(data) or media_type(run.content_type)[0].endswith("json"):
            return parse_json_feed(data, run.base, run.limits.parse)
        return require_feed(parse_feed(data, run.base, run.limits.parse), data)
