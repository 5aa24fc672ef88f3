"""The feed plugins that come with the LCC."""

from __future__ import annotations

from lcc.feeds.default import DefaultPlugin
from lcc.feeds.feed import FeedPlugin
from lcc.feeds.full_content import FullContentPlugin
from lcc.feeds.permalink import PermalinkPlugin
from lcc.feeds.web import UrlPlugin

default = DefaultPlugin()
url = UrlPlugin()
feed = FeedPlugin()
full_content = FullContentPlugin()
permalink = PermalinkPlugin()
