"""OPIC finds important pages before breadth first does, in a generated web."""

from __future__ import annotations

from bisect import bisect
from collections import deque
from heapq import heappop, heappush
from itertools import accumulate
from random import Random

import pytest

from lcc.domain.spider.rules import START_CASH, rank, shares
from lcc.model.spider.crawls import UrlOrder

Web = list[list[int]]
"""Of each page, those that it links to; 0 is the start."""


def generated_web(seed: int, pages: int = 8000, sites: int = 100, archived: float = 0.9, listed: int = 500) -> Web:
    """Sites of very different sizes, linked to as they are popular.

    A site has a home page, articles in a tree, and an archive: pages that list many others, which hardly anything
    else links to.

    :param archived: share of the pages that are in archives.
    :param listed: pages on a page of an archive.
    """
    random = Random(seed)
    weights = [random.paretovariate(1.2) for _ in range(sites)]
    web: list[set[int]] = []
    ids: list[list[int]] = []
    for weight in weights:
        size = max(12, int(pages * weight / sum(weights)))
        ids.append(list(range(len(web), len(web) + size)))
        web += [set() for _ in range(size)]
    popular = list(accumulate(random.paretovariate(0.9) for _ in ids))
    for site in ids:
        home, count = site[0], int(len(site) * archived)
        articles, archive = site[1 : len(site) - count], site[len(site) - count :]
        menu = [home, *articles[:4]]
        for page in menu:
            web[page].update(menu)
        for number, page in enumerate(articles):
            web[page].update(menu)
            web[articles[(number - 1) // 4] if number else home].add(page)
            web[page].update(articles[int(len(articles) * random.random() ** 2)] for _ in range(2))
            web[page].update(ids[bisect(popular, random.random() * popular[-1])][0] for _ in range(2))
        before = home
        for start in range(0, count, listed):
            page, items = archive[start], archive[start + 1 : start + listed]
            web[before].add(page)
            web[page].update(items, menu)
            for item in items:
                web[item].update([home, page])
            before = page
    for number, site in enumerate(ids):
        web[site[0]].update(ids[child][0] for child in (2 * number + 1, 2 * number + 2) if child < len(ids))
    return [sorted(links - {page}) for page, links in enumerate(web)]


def page_ranks(web: Web, damping: float = 0.85, rounds: int = 25) -> list[float]:
    ranks = [1 / len(web)] * len(web)
    for _ in range(rounds):
        new = [(1 - damping) / len(web)] * len(web)
        for page, links in enumerate(web):
            for link in links:
                new[link] += damping * ranks[page] / len(links)
        ranks = new
    return ranks


def breadth_first(web: Web, count: int) -> list[int]:
    seen, ahead, found = {0}, deque([0]), []
    while ahead and len(found) < count:
        found.append(page := ahead.popleft())
        for link in web[page]:
            if link not in seen:
                seen.add(link)
                ahead.append(link)
    return found


def by_importance(web: Web, count: int) -> list[int]:
    """As the frontier does it."""
    cash, depth, found, read = {0: START_CASH}, {0: 0}, [], set()
    ahead = [(0, 0)]
    while ahead and len(found) < count:
        _, page = heappop(ahead)
        if page in read:
            continue
        read.add(page)
        found.append(page)
        heirs = [link for link in web[page] if link not in read]
        if not heirs:
            continue
        for link, share in zip(heirs, shares(cash[page], len(heirs)), strict=True):
            cash[link] = cash.get(link, 0) + share
            depth[link] = min(depth.get(link, 1 << 30), depth[page] + 1)
            heappush(ahead, (rank(UrlOrder.OPIC, depth[link], 0, cash[link]), link))
        cash[page] = 0
    assert sum(cash.values()) == START_CASH
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_fifth_of_a_web_has_more_page_rank_than_breadth_first(seed: int) -> None:
    web = generated_web(seed)
    ranks = page_ranks(web)
    fifth = len(web) // 5
    important, broad = (sum(ranks[page] for page in order(web, fifth)) for order in (by_importance, breadth_first))
    assert important >= 1.3 * broad


def test_where_sites_have_no_archives_it_is_no_worse() -> None:
    web = generated_web(1, pages=4000, archived=0.2, listed=20)
    ranks = page_ranks(web)
    fifth = len(web) // 5
    important, broad = (sum(ranks[page] for page in order(web, fifth)) for order in (by_importance, breadth_first))
    assert important >= broad
