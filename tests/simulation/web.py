"""Sites whose pages link to each other, and change: what a crawl has to find, and no more.

The web is the oracle of its own graph.  It knows every content that each page ever had, with its links; so what a
spider has read, and what it has asked for, can be held against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import dirname, relpath

import attrs
from twisted.application.service import Service
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater

from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline

from .sites import OriginProtocol, Page, Site, in_background

ROBOTS_TXT = "robots.txt"
DOOMED = b"ends its worker"
"""Stands in a page that no extractor survives."""
CHANGE_SECONDS = 3.0
FOUND = "l/"
"""The folder, on sites of providers, of what they do not tell of."""
_ROBOTS = b"User-agent: *\nDisallow: /no/\n"
_NAMES = "abcdeghijkmnopqrstuvw"
_SORTED = "?C=N;O=D"


@attrs.define(eq=False)
class Node:
    """A page.

    :ivar answered: path of the content; another one than ``path``: it is redirected there.
    :ivar links: URLs that are to be followed.
    :ivar others: URLs that stand there, and are not.
    :ivar is_doomed: its links cannot be extracted.
    """

    site: Site
    path: str
    answered: str
    links: list[str] = attrs.field(factory=list)
    others: dict[str, str] = attrs.field(factory=dict)
    is_doomed: bool = False
    is_there: bool = True
    version: int = 0

    @property
    def url(self) -> str:
        return self.site.url(self.path)

    @property
    def followed(self) -> list[str]:
        """What a spider follows."""
        return [] if self.is_doomed else self.links


class LinkedSite(Site):
    """A site that nobody has registered."""

    def __init__(self, timeline: Timeline, number: int, name: str, address: str) -> None:
        super().__init__(timeline, number, address)
        self.pid = 0  # nobody watches it yet
        self.name = name
        self.root = f"http://{name}/"
        self.pages.clear()
        self.untold.clear()
        self.broken.clear()
        self.wants_full = self.stays_open = False
        self.has_robots = False

    def hours_of(self, path: str) -> str:
        """None: nobody tells any."""
        return ""


class LinkedSiteServer(Service):
    """The web server of such a site."""

    def __init__(self, web: Web, site: LinkedSite, process: Process) -> None:
        self._web = web
        self._site = site
        self._reactor = process.reactor

    def startService(self) -> None:
        super().startService()
        factory = Factory.forProtocol(lambda: OriginProtocol(self._site, self._reactor))
        factory.noisy = False
        self._reactor.listenTCP(80, factory)
        in_background(self._change())

    async def _change(self) -> None:
        while self.running:
            await deferLater(self._reactor, self._site.chance.expovariate(1 / CHANGE_SECONDS))
            if self._site.changing and self._web.is_changing and self._site in self._web.sites:
                self._web.live_a_little(self._site)


class Web:
    """See :mod:`tests.simulation.web`.

    :param sites: within the scope; the first one is where a crawl starts.
    :param providers: they have some linked pages beside those that they tell of.
    :param outside: linked to, and not within the scope.
    :ivar is_changing: pages change, and come and go.
    :ivar nodes: by URL.
    :ivar versions: by URL and md5: what a content links to.
    :ivar asked: (site, path) -> requests.
    """

    def __init__(
        self, timeline: Timeline, sites: list[LinkedSite], providers: list[Site], outside: LinkedSite
    ) -> None:
        self.timeline = timeline
        self.chance = timeline.random("web")
        self.sites = sites
        self.providers = providers
        self.outside = outside
        self.is_changing = self.chance.random() < 0.6
        self.nodes: dict[str, Node] = {}
        self.versions: dict[str, dict[str, frozenset[str]]] = {}
        self.asked: dict[str, int] = {}
        self.met: list[str] = []
        """What must never be, as it was seen."""
        self._numbers = 0
        self._grow()
        for site in (*sites, *providers, outside):
            site.asked = lambda target, site=site: self._asked(site, target)  # type: ignore[misc]

    @property
    def start(self) -> str:
        """Where a crawl begins."""
        return self.sites[0].root

    # What there is.

    def _grow(self) -> None:
        chance = self.chance
        for site in self.sites:
            site.has_robots = chance.random() < 0.6
            self._robots(site)
            self._add(site, "")
            for _ in range(chance.randint(2, 7)):
                self._add_near(site)
            # Relative links are taken from the second one; from the first they lead elsewhere.
            self._add(site, f"d/{self._name()}/e/deep.html", f"r/{self._name()}.html")
        for provider in self.providers:
            for _ in range(chance.randint(1, 3)):
                self._add(provider, f"{FOUND}{self._name()}.html")
        nodes = list(self.nodes.values())
        for at, node in enumerate(nodes[1:], 1):
            if chance.random() < 0.93:
                # Pages that are redirected have some of their own.
                nodes[at - 1 if nodes[at - 1].path != nodes[at - 1].answered else chance.randrange(at)].links.append(
                    node.url
                )
        for node in nodes:
            node.links += [other.url for other in chance.sample(nodes, chance.choice((0, 0, 1, 3)))]
            self._spoil(node)
        if chance.random() < 0.3:
            chance.choice(nodes[1:]).is_doomed = True
        for node in nodes:
            self._write(node)

    def _robots(self, site: LinkedSite) -> None:
        """At some sites it cannot be read at first; at some of these so long that the queue gives it up."""
        page = Page(1, _ROBOTS) if site.has_robots else None
        if self.chance.random() < 0.3:
            site.leftovers[ROBOTS_TXT] = Page(1, b"no", status=self.chance.choice((500, 500, 503, 429)))
            self.timeline.call_later(self.chance.uniform(3, 90), None, self._robots_is, site, page)
        else:
            self._robots_is(site, page)

    def _robots_is(self, site: LinkedSite, page: Page | None) -> None:
        site.leftovers.pop(ROBOTS_TXT, None)
        if page is not None:
            site.leftovers[ROBOTS_TXT] = page

    def _name(self) -> str:
        self._numbers += 1
        return _NAMES[self._numbers % len(_NAMES)] + "x" * (self._numbers // len(_NAMES))

    def _add(self, site: Site, path: str, answered: str | None = None) -> Node:
        node = Node(site, path, path if answered is None else answered)
        self.nodes[node.url] = node
        return node

    def _add_near(self, site: Site) -> Node:
        return self._add(site, f"{self.chance.choice(('', 'f/', 'f/g/'))}{self._name()}.html")

    def _spoil(self, node: Node) -> None:
        """Links that lead nowhere, or must not be followed."""
        chance, site = self.chance, node.site
        if chance.random() < 0.3:
            node.others[self.outside.url(f"{self._name()}.html")] = ""
        if chance.random() < 0.2:
            node.others[site.root + _SORTED] = ""
        forbidden = chance.choice(self.sites)
        for folder, rel in (("no", ""), ("nf", "nofollow")):
            if chance.random() < 0.3 and (rel or forbidden.has_robots):
                path = f"{folder}/{self._name()}.html"
                forbidden.leftovers[path] = Page(1, path.encode())
                node.others[forbidden.url(path)] = rel

    def _write(self, node: Node) -> None:
        """Its content is what it links to now."""
        node.version += 1
        content = self._html(node).encode()
        page = Page(node.version, content)
        if node.path != node.answered:
            node.site.leftovers[node.path] = Page(node.version, b"", location=f"/{node.answered}")
        node.site.leftovers[node.answered] = page
        links = frozenset() if node.is_doomed else frozenset([*node.links, *node.others])
        self.versions.setdefault(node.url, {})[page.md5] = links

    def _html(self, node: Node) -> str:
        chance = self.chance
        here = f"/{dirname(node.answered)}"
        base = ""
        if chance.random() < 0.3:
            folder = chance.choice(("base/", "../base/" if "/" in node.answered else "base/", "/base/"))
            base = f'<base href="{folder}">'
            here = folder if folder.startswith("/") else f"{here.rstrip('/')}/{folder}"
        links = []
        for url in dict.fromkeys(node.links):
            links.append(f'<a href="{self._reference(node, url, here)}">{chance.randrange(1000)}</a>')
        links += [f'<a rel="{rel}" href="{url}">x</a>' for url, rel in node.others.items()]
        chance.shuffle(links)
        doom = DOOMED.decode() if node.is_doomed else ""
        title = f"{node.url} {node.version}"
        return f"<html><head><title>{title}</title>{base}</head><body>{doom}{''.join(links)}</body></html>"

    def _reference(self, node: Node, url: str, here: str) -> str:
        """A link, written in one of the ways in which it may be."""
        root, luck = node.site.root, self.chance.random()
        path = url.removeprefix(root)
        if not url.startswith(root) or luck < 0.2:
            return url
        if luck < 0.4 or not path:
            return f"/{path}"
        return relpath(f"/{path}", here)

    # How it changes.

    def live_a_little(self, site: Site) -> None:
        """Something changes."""
        chance = self.chance
        nodes = [node for node in self.nodes.values() if node.site is site or node.site in self.providers]
        node = chance.choice(nodes)
        luck = chance.random()
        if not node.is_there:
            if luck < 0.6:
                node.is_there = True
                self._write(node)
        elif luck < 0.25 and node.url != self.start:
            node.is_there = False
            node.site.leftovers.pop(node.path)
        elif luck < 0.5 and node.links:
            node.links.remove(chance.choice(node.links))
            self._write(node)
        elif luck < 0.6 and self._numbers < 60:
            new = self._add_near(site)
            self._write(new)
            node.links.append(new.url)
            self._write(node)
        else:
            node.links.append(chance.choice(sorted(self.nodes)))
            self._write(node)

    # What a crawl has to find.

    def closure(self, left_out: Iterable[str] = (), depth_max: int | None = None) -> set[str]:
        """What links lead to from the start now, as far as it is there.

        :param left_out: URLs that could not be fetched.
        """
        out = set(left_out)
        found, ahead = {self.start}, [self.start]
        depth = 0
        while ahead and depth != depth_max:
            depth += 1
            new = dict.fromkeys(url for page in ahead for url in self.nodes[page].followed)
            ahead = [url for url in new if url not in found and url not in out and self.nodes[url].is_there]
            found.update(ahead)
        return found - out

    def md5_of(self, url: str) -> str | None:
        """Of the content that it has now; None: there is none."""
        node = self.nodes[url]
        return node.site.leftovers[node.answered].md5 if node.is_there else None

    # Who asks.

    def _asked(self, site: Site, target: str) -> None:
        path = target.lstrip("/")
        if site is self.outside:
            self.met.append(f"{site.root}{path} is fetched, and out of scope")
        elif path.startswith("no/"):
            self.met.append(f"{site.root}{path} is fetched, and its robots.txt forbids it")
        elif path.startswith("nf/"):
            self.met.append(f"{site.root}{path} is fetched, and nobody is to follow the links to it")
        elif "C=" in path:
            self.met.append(f"{site.root}{path} is fetched, a view of a folder")
        elif isinstance(site, LinkedSite) or path.startswith(FOUND):
            self.asked[site.url(path)] = self.asked.get(site.url(path), 0) + 1
            if path != ROBOTS_TXT and not self._is_known(site, path):
                self.met.append(f"{site.root}{path} is fetched, and no link leads there")

    def _is_known(self, site: Site, path: str) -> bool:
        return site.url(path) in self.nodes or any(
            node.site is site and node.answered == path for node in self.nodes.values()
        )


def pages_of(web: Web, site: Site, urls: Iterable[str]) -> dict[str, Page]:
    """Path -> page, of those of these URLs that are a site's."""
    return {
        web.nodes[url].path: site.leftovers[web.nodes[url].answered] for url in urls if web.nodes[url].site is site
    }
