"""``lcc-admin resync``: sites that publish what they have, and what has changed, with ResourceSync."""

from __future__ import annotations

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.feeds.sitemaps import EVERY_SECONDS, add_sitemaps
from lcc.admin.feeds.values import EVERY, feed_url
from lcc.admin.output import json_option
from lcc.domain.urls import site_of

_WELL_KNOWN = ".well-known/resourcesync"


@click.group("resync")
def resync_group() -> None:
    """Read sites that publish with ResourceSync.

    Source descriptions, capability lists, resource lists and change lists are read as sitemaps are: "lcc-admin
    sitemap" lists, explains, changes and removes them.
    """


@resync_group.command("add")
@click.argument("url")
@click.option("--every", type=EVERY, default=EVERY_SECONDS, show_default=True, help="Period in seconds.")
@click.option("--allow-private", is_flag=True, help="The site may be on a private address.")
@json_option
@pass_admin
def add_command(admin: Admin, url: str, every: int, allow_private: bool, as_json: bool) -> None:
    """Add what a site publishes with ResourceSync, and print its id.

    URL is the site, which has its source description at /.well-known/resourcesync; or a source description, a
    capability list, a resource list or a change list.
    """
    document = feed_url(url)
    if document == site_of(document):
        document += _WELL_KNOWN
    add_sitemaps(admin, [document], every, allow_private, as_json)
