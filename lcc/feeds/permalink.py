"""The permalink plugin: the text of the page that an item of a feed leads to."""

from __future__ import annotations

from collections.abc import Sequence

from lcc.feeds.run import FeedRun
from lcc.feeds.text import text_of
from lcc.feeds.web import UrlPlugin
from lcc.model.feeds import FeedInfo, FeedItem


class PermalinkPlugin(UrlPlugin):
    """Stores the text of a page with the page.

    It gets the feed's and the item's id (``run.feed_id``, ``run.item``); the text belongs to the page, so that
    several feeds and the search share it.
    """

    name = "permalink"
    summary = "url, and stores the text of the page that an item leads to"

    def fetchclean(self, run: FeedRun, data: bytes) -> bytes:
        """The content as it is: the extraction finds its encoding."""
        return data

    def parse(self, run: FeedRun, data: bytes) -> tuple[FeedInfo, Sequence[FeedItem]]:
        """One item: the page."""
        text = text_of(data, run.content_type, run.base, run.limits.text_chars_max)
        run.own["text"] = text
        return FeedInfo(), (FeedItem(link=run.url, title=text.title, text=text.text, language=text.language),)

    def clean(self, run: FeedRun, item: FeedItem) -> FeedItem:
        """It is plain already."""
        return item

    def store(self, run: FeedRun, item: FeedItem) -> None:
        """Store the text with the page."""
        text = run.own["text"]
        if text.cut:
            run.log(f"the text is cut at {run.limits.text_chars_max} characters")
        run.store_text(text)
