"""All that is fuzzed."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.target_batches import Batches
from tests.fuzz.target_parser import Parser
from tests.fuzz.targets_feeds import FeedLists, Feeds, Links, References, ResourceSync, RobotsTxt, Sitemaps
from tests.fuzz.targets_fetch import FtpServers, WebServers
from tests.fuzz.targets_front import IndexNowRequests, ProxyHeaders, SearchQueries, Tokens, WebSubMessages
from tests.fuzz.targets_front_roles import ProvidersAtFront, QuestionsAtFront, XmlAtFront
from tests.fuzz.targets_jobs import ManagersAtScheduler, OrdersAtManager, WorkerRequests
from tests.fuzz.targets_notifiers import NotifierAnswers, NotifierSets
from tests.fuzz.targets_pages import MonitorPages, SearchPages
from tests.fuzz.targets_push import PushedSets, PushRequests
from tests.fuzz.targets_qm import Results, Sets
from tests.fuzz.targets_robots import (
    OrdersAtBot,
    OrdersAtBotm,
    OrdersAtCentral,
    ResultsAtBotm,
    ResultsAtCentral,
    Typed,
)
from tests.fuzz.targets_uns import Answers, Link, Providers
from tests.fuzz.targets_users import ContentAnswers, ContentPorts, HttpQuestions, XmlQuestions

TARGETS: tuple[type[Target], ...] = (
    Parser,
    Providers,
    Answers,
    Link,
    NotifierSets,
    NotifierAnswers,
    Sets,
    Results,
    OrdersAtBotm,
    ResultsAtBotm,
    OrdersAtBot,
    Batches,
    OrdersAtCentral,
    ResultsAtCentral,
    Typed,
    XmlQuestions,
    HttpQuestions,
    ContentPorts,
    ContentAnswers,
    WebServers,
    FtpServers,
    Feeds,
    Sitemaps,
    ResourceSync,
    RobotsTxt,
    Links,
    References,
    FeedLists,
    IndexNowRequests,
    WebSubMessages,
    SearchQueries,
    Tokens,
    ProxyHeaders,
    ManagersAtScheduler,
    OrdersAtManager,
    WorkerRequests,
    PushRequests,
    PushedSets,
    ProvidersAtFront,
    QuestionsAtFront,
    XmlAtFront,
    SearchPages,
    MonitorPages,
)
