"""A site with a sitemap and a change list, a whole LCC of real processes: from what they list to what is cached."""

from __future__ import annotations

from pathlib import Path

from lcc.client.blocking import Cache, CacheError
from tests.support.processes.system import System
from tests.support.servers.web_site import WebSite
from tests.support.sitemaps import RS, urlset
from tests.support.waiting import wait_for

SETTINGS = """
[manager]
user = "root"
[watched]
interval = 0
"""


def cached(system: System, site: WebSite) -> set[str]:
    """Names of the pages that content users see."""
    try:
        with Cache(f"unix:{system.folder}/home/cu.sock") as cache:
            return {row["curl"].removeprefix(site.url) for row in cache.urls(prefix=site.url)}
    except (CacheError, OSError):
        return set()


def test_what_a_site_lists_is_cached_and_what_it_lists_no_longer_goes(tmp_path: Path) -> None:
    site = WebSite()
    system = System(tmp_path, None, None, extra=SETTINGS)
    for name in "abc":
        site.files[f"/{name}"] = (200, {"Content-Type": "text/html"}, name.encode())
    site.files["/sitemap.xml"] = urlset(f"{site.url}a", f"{site.url}b").encode()
    caps = (
        f'<urlset {RS}><rs:md capability="capabilitylist"/><url><loc>{site.url}changes</loc>'
        '<rs:md capability="changelist"/></url></urlset>'
    )
    entry = '<url><loc>{}{}</loc><rs:md change="{}" datetime="2026-01-0{}T00:00:00Z"/></url>'
    head = f'<urlset {RS}><rs:md capability="changelist"/>'
    created = entry.format(site.url, "c", "created", 1)
    site.files["/caps"] = caps.encode()
    site.files["/changes"] = f"{head}{created}</urlset>".encode()
    try:
        system.start("all")
        options = ("--every", "3600", "--allow-private")
        system.admin("sitemap", "add", f"{site.url}sitemap.xml", *options)
        system.admin("resync", "add", f"{site.url}caps", *options)
        wait_for("all pages", lambda: cached(system, site) == {"a", "b", "c"})
        site.files["/sitemap.xml"] = urlset(f"{site.url}b").encode()
        site.files["/changes"] = f"{head}{created}{entry.format(site.url, 'c', 'deleted', 2)}</urlset>".encode()
        system.admin("sitemap", "poll", f"{site.url}sitemap.xml", f"{site.url}changes")
        wait_for("what is listed no longer goes", lambda: cached(system, site) == {"b"})
        assert "1 URL in 1 document" in system.admin("sitemap", "why", f"{site.url}sitemap.xml")
    finally:
        system.stop_all()
        site.stop()
