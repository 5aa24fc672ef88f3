"""Sites whose pages link to each other, their closure, and all their links: what a crawl must find, and no more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tests.support.ports import free_port
from tests.support.servers.nginx import Nginx

NOFOLLOW_SHARE = 0.05
_FACETS = "".join(f'<a href="$request_uri&{facet}">{facet}</a>' for facet in ("c=red", "c=blue", "s=1", "s=2"))


def _always(html: str) -> str:
    return f"default_type text/html; return 200 '{html}';"


TRAPS = {
    "copies": _always('<a href="deeper/">The same page, however deep</a>'),
    "deep": _always('<a href="$request_id/">Deeper</a>'),
    "sessions": _always('<a href="?PHPSESSID=$request_id">The same page</a>'),
    "calendar": _always('<a href="?day=$msec">The next day</a>'),
    "facets": _always(_FACETS),
    "redirects": "return 302 /traps/redirects/$request_id;",
}
"""Endless pages: folder -> what nginx answers, whatever is asked for below it."""
_ENDLESS = " ".join(f"location /traps/{name}/ {{ {answer} }}" for name, answer in TRAPS.items())
FORMS = (
    '<a href="{}">{}</a>',
    "<a class=x href='{}' title=y>{}</a>",
    '<map><area href="{}" alt="{}"></map>',
    '<iframe src="{}" title="{}"></iframe>',
    '<link rel="next" href="{}"><i>{}</i>',
)


@attrs.frozen
class LinkedSites:
    """Generated sites.

    :ivar roots: of the sites.
    :ivar links: page -> what it links to, in whatever form, with whether that is to be followed.
    :ivar forbidden: pages that a robots.txt forbids.
    :ivar padding_bytes: of text in each page.
    :ivar delays: root of a site -> what its robots.txt asks for as Crawl-delay, in seconds.
    :ivar moved: what redirects to a page of another site.
    """

    roots: tuple[str, ...]
    links: Mapping[str, tuple[tuple[str, bool], ...]]
    forbidden: frozenset[str]
    padding_bytes: int = 0
    delays: Mapping[str, float] = attrs.field(factory=dict)
    moved: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def start(self) -> str:
        """A page from which the closure is."""
        return self.roots[0]

    def closure(self) -> set[str]:
        """What links lead to from the start, by the rules of a polite robot."""
        found, ahead = {self.start}, [self.start]
        while ahead:
            for linked, follow in self.links[ahead.pop()]:
                target = self.moved.get(linked, linked)
                if follow and target in self.links and target not in self.forbidden and target not in found:
                    found.add(target)
                    ahead.append(target)
        return found

    def edges(self, pages: set[str]) -> set[tuple[str, str]]:
        """The links of these pages."""
        return {(page, target) for page in pages for target, _ in self.links[page]}

    def write(self, folder: Path) -> None:
        """Write each site below a folder of the name of its host."""
        for root in self.roots:
            place = folder / str(urlsplit(root).hostname)
            place.mkdir(parents=True)
            (place / "robots.txt").write_text(self.robots(root))
        for page in self.links:
            parts = urlsplit(page)
            path = folder / str(parts.hostname) / (parts.path.lstrip("/") or "index.html")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.html(page))

    def robots(self, root: str) -> str:
        """The robots.txt of a site."""
        paths = sorted(urlsplit(page).path for page in self.forbidden if page.startswith(root))
        delay = [f"Crawl-delay: {self.delays[root]}\n"] if root in self.delays else []
        return "".join(["User-agent: *\n", *delay, *(f"Disallow: {path}$\n" for path in paths)])

    def html(self, page: str) -> str:
        """The content of a page."""
        return "".join(self._html(page, self.links[page]))

    def _html(self, page: str, links: tuple[tuple[str, bool], ...]) -> Iterator[str]:
        chance = random.Random(page)
        base, relative_to = "", page
        if chance.random() < 0.1:
            relative_to = chance.choice(self.roots)
            base = f'<base href="{relative_to}">'
        yield f"<!DOCTYPE html><html><head><title>{page}</title>{base}</head><body>"
        for number, (target, follow) in enumerate(links):
            shown = target
            if target.startswith("/".join(relative_to.split("/")[:3]) + "/") and chance.random() < 0.7:
                shown = "/" + target.split("/", 3)[3]
            form = chance.choice(FORMS) if follow else '<a rel="external nofollow" href="{}">{}</a>'
            yield form.format(shown, f"to {number}")
        words = " ".join(f"word{chance.randrange(1000)}" for _ in range(self.padding_bytes // 8))
        yield f"<p>{words}</p></body></html>"


def generate(seed: int, roots: tuple[str, ...], pages: int, links: int, padding_bytes: int = 0) -> LinkedSites:
    """Sites with so many pages each; a page has about so many links."""
    chance = random.Random(seed)
    names = [[root, *(f"{root}d{n % 7}/p{n}.html" for n in range(1, pages))] for root in roots]
    everything = [page for site in names for page in site]
    forbidden = frozenset(page for page in everything if page not in roots and chance.random() < 0.03)
    found = {}
    for site in names:
        for number, page in enumerate(site):
            # Mostly near by; so that the closure is deep, and some pages are not in it.
            near = [site[(number * 2 + step) % pages] for step in range(1, max(2, links // 2))]
            far = [chance.choice(everything) for _ in range(chance.randrange(links))]
            outside = ["http://elsewhere.example/"] if chance.random() < 0.1 else []
            targets = sorted({*near, *far, *outside} - {page})
            found[page] = tuple((target, chance.random() >= NOFOLLOW_SHARE) for target in targets)
    return LinkedSites(roots, found, forbidden, padding_bytes)


class SiteServer(Nginx):
    """nginx with a host for each site: addresses of the loopback network.

    :ivar moved: redirects to a page of the last host, which is not there of itself; no page links there of itself.
    :ivar traps: where endless pages begin, of each kind of :data:`TRAPS`; no page links there of itself.
    :param bytes_per_second: of an answer, from the second second on; 0: as fast as it can.
    """

    def __init__(self, folder: Path, hosts: int, bytes_per_second: int = 0) -> None:
        port = free_port()
        addresses = [f"127.0.1.{number + 1}" for number in range(hosts)]
        listens = "".join(f"listen {address}:{port}; " for address in addresses)
        www = folder / "www"
        www.mkdir(parents=True)
        slow = f"gzip off; limit_rate {bytes_per_second};" if bytes_per_second else ""
        self.roots = tuple(f"http://{address}:{port}/" for address in addresses)
        self.moved = {f"{self.roots[0]}moved": f"{self.roots[-1]}behind/a/redirect.html"}
        moved = "".join(f"location = /moved {{ return 302 {target}; }}" for target in self.moved.values())
        answers = f"location / {{ root {www}/$server_addr; }} {moved} {_ENDLESS}"
        super().__init__(www, folder / "nginx", more=f"{listens} {slow} {answers}")
        self.traps = tuple(f"{self.roots[-1]}traps/{name}/{'?c=all' if name == 'facets' else ''}" for name in TRAPS)


def is_trap(url: str) -> bool:
    """Whether a page is one of endless ones."""
    return "/traps/" in url
