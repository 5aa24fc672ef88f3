"""The interfaces between the packages of the LCC.

Roles access the database, files, peers and the network only through these, so that the whole system can run in one
process, on simulated ones.
"""

from __future__ import annotations

from lcc.interfaces.content import (
    IAttemptFile,
    IContentFolder,
    IContentReader,
    IContentSink,
    IContentSync,
    IFetchingNote,
)
from lcc.interfaces.feeds import IFeedPlugin
from lcc.interfaces.fetching import IFetcher, IFetcherPlugin, IWatchedFetcher
from lcc.interfaces.metrics import IRoleMetrics
from lcc.interfaces.providers import IProviderReader, IRegistrationStore, ISessionStore
from lcc.interfaces.queue import IQueueRepair, IQueueRules, IQueueStore
from lcc.interfaces.spider import IFrontier, IFrontierRules, ILinkExtractor, IOpenStore, IPageStore, IUrlFilter
from lcc.interfaces.streams import IConversation, IFeed
from lcc.interfaces.tasks import IItemRules, IItemStore, ITaskRules

__all__ = [
    "IAttemptFile",
    "IContentFolder",
    "IContentReader",
    "IContentSink",
    "IContentSync",
    "IConversation",
    "IFeed",
    "IFeedPlugin",
    "IFetcher",
    "IFetcherPlugin",
    "IFetchingNote",
    "IFrontier",
    "IFrontierRules",
    "IItemRules",
    "IItemStore",
    "ILinkExtractor",
    "IOpenStore",
    "IPageStore",
    "IProviderReader",
    "IQueueRepair",
    "IQueueRules",
    "IQueueStore",
    "IRegistrationStore",
    "IRoleMetrics",
    "ISessionStore",
    "ITaskRules",
    "IUrlFilter",
    "IWatchedFetcher",
]
