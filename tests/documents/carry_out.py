"""``python carry_out.py lcc.toml``: carry out the orders for spiders, as one would that then ends."""

import sys
from pathlib import Path

from lcc.config import load_config
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.place import place_of
from tests.support.databases import DirectDatabase, result_of
from tests.support.frontier import Spider, carry_out_all

place = place_of(load_config(Path(sys.argv[1])), SPIDER)
spider = Spider(DirectDatabase(place.url, place.home, place.series), "examples")
carry_out_all(spider)
result_of(spider.store.end())
spider.database.blocking.close()
