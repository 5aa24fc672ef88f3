"""The URL plugin: takes what the robot fetched at the URL."""

from __future__ import annotations

from lcc.feeds.default import DefaultPlugin
from lcc.feeds.run import FeedRun


class UrlPlugin(DefaultPlugin):
    """As the default plugin, and its content is that of a URL.

    Ssscrape's fetched it itself; here the robot did, politely, and only if it has changed.
    """

    name = "url"
    summary = "default, and the content of a URL"

    def fetch(self, run: FeedRun) -> bytes:
        """What the robot fetched."""
        return run.content()
