"""The feed worker's process: from its job to a run of the stages, and back.

The kind ``feed`` runs the plugin of the feed's options on the document that was polled; the kind ``text`` runs the
permalink plugin on a page.  Both are forks of the template process, which has imported this module once, and with it
what nearly each run needs.
"""

from __future__ import annotations

import codecs
import json
import os
import time
import xml.sax.expatreader  # noqa: F401  # feedparser's own, at the first document
from pathlib import Path

import feedparser  # noqa: F401  # for the forks
from lxml import etree  # noqa: F401

from lcc.errors import ConfigError
from lcc.feeds.faults import FeedFault
from lcc.feeds.registry import plugin_named
from lcc.feeds.run import FeedRun, run_stages
from lcc.feeds.text import has_trafilatura
from lcc.feeds.words import tidy
from lcc.model.feed_options import FeedOptions, read_feed_args
from lcc.model.polled import CONTENT_FILE, PolledContent
from lcc.workers.api import Job, JobInfo, PermanentError, TemporaryError, run

PERMALINK = "permalink"
ROBOTS_BYTES_MAX = 500 * 1024
"""RFC 9309, section 2.5."""

if has_trafilatura():
    import trafilatura  # noqa: F401


def main() -> None:
    """A job of the kind ``feed``."""
    run(_feed)


def text() -> None:
    """A job of the kind ``text``: its arguments are the page's URL, the feed (its task) and the item."""
    run(_text)


def robots() -> None:
    """A job of the kind ``robots``: the text of a robots.txt, for the scheduler."""
    run(_robots)


def _robots(job: Job) -> None:
    path = os.environ.get(CONTENT_FILE)
    if not path:
        raise PermanentError("no content was fetched for this job")
    with Path(path).open("rb") as file:
        data = file.read(ROBOTS_BYTES_MAX)
    text = tidy(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace"), ROBOTS_BYTES_MAX)
    job.store({"robots": text})


def _feed(job: Job) -> None:
    info = job.show()
    try:
        url, options = read_feed_args(info.args)
    except ValueError as error:
        raise PermanentError(str(error)) from None
    policy = _policy(info.data)
    done = _work(job, info, url, options, policy)
    if done.policy and done.policy != policy:
        job.store_data(json.dumps({"policy": done.policy}))


def _text(job: Job) -> None:
    info = job.show()
    url, feed_id, item = (*info.args, "", "", "")[:3]
    _work(job, info, url, FeedOptions(plugin=PERMALINK), "", feed_id, item)


def _work(
    job: Job, info: JobInfo, url: str, options: FeedOptions, policy: str, feed_id: str = "", item: str = ""
) -> FeedRun:
    content = _content(info)
    path = os.environ.get(CONTENT_FILE)
    try:
        plugin = plugin_named(options.plugin)
        source = Path(path).open("rb") if path else None  # noqa: SIM115  # this process ends soon
        made = FeedRun(
            url,
            source,
            job,
            now=int(time.time()),
            base=content.base if content else "",
            content_type=content.content_type if content else "",
            links=content.links if content else "",
            policy=policy,
            feed_id=feed_id or str(info.task),
            item=item,
            key=content.key if content else "",
            md5=content.md5 if content else "",
            permalinks=options.links if options.full_content else "",
            options=dict(options.own),
        )
        run_stages(plugin, made)
    except ConfigError as error:
        raise PermanentError(str(error)) from None
    except FeedFault as error:
        raise (PermanentError if error.permanent else TemporaryError)(str(error)) from error
    return made


def _content(info: JobInfo) -> PolledContent | None:
    """What was fetched; None: nothing was, as for a plugin whose source is no page."""
    if not info.input:
        return None
    try:
        return PolledContent.from_values(info.input)
    except ValueError as error:
        raise PermanentError(str(error)) from None


def _policy(data: str) -> str:
    try:
        kept = json.loads(data or "{}")
    except ValueError:
        return ""
    policy = kept.get("policy") if isinstance(kept, dict) else ""
    return policy if policy in ("id", "link", "hash") else ""
