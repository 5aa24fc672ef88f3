"""The stores that come with the LCC."""

from __future__ import annotations

from lcc.spider.stores.lines import LinkLog, TextStore
from lcc.spider.stores.warc import WarcStore

links = LinkLog()
text = TextStore()
warc = WarcStore()
