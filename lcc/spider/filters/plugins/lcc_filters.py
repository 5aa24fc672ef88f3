"""The filters that come with the LCC."""

from __future__ import annotations

from lcc.spider.filters.simple import (
    DepthFilter,
    HostFilter,
    KnownPathsFilter,
    LengthFilter,
    NofollowFilter,
    RobotsFilter,
    SchemeFilter,
    ScopeFilter,
    VisitedFilter,
)
from lcc.spider.filters.traps import TrapFilter

length = LengthFilter()
scheme = SchemeFilter()
scope = ScopeFilter()
known_paths = KnownPathsFilter()
nofollow = NofollowFilter()
hosts = HostFilter()
robots = RobotsFilter()
depth = DepthFilter()
traps = TrapFilter()
visited = VisitedFilter()
