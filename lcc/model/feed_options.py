"""Options of a feed: they stand behind its URL among the arguments of its task, so that every worker sees them::

http://www.example.org/feed.xml --full-content --listed --plugin comments --option section=news
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from lcc.model.tasks import JobSpec

DEFAULT_PLUGIN = "full-content"
SAME_HOST, ANYWHERE = "same-host", "anywhere"
OPTIONS_MAX = 100


@attrs.frozen
class FeedOptions:
    """
    :ivar plugin: name of the feed plugin.
    :ivar full_content: the permalinks of new items are put into the queue, and the text of their pages is kept.
    :ivar links: which of them: on the feed's own host, or anywhere.
    :ivar listed: it is the site's own feed: the pages of its items that are of its provider are ``listed``, new ones
        and those of items that have changed; the others are hints.  Needs ``full_content``.
    :ivar allow_private: the feed may be on a private address.
    :ivar own: the plugin's own, by name.
    """

    plugin: str = DEFAULT_PLUGIN
    full_content: bool = False
    links: str = SAME_HOST
    listed: bool = False
    allow_private: bool = False
    own: tuple[tuple[str, str], ...] = ()


def feed_args(url: str, options: FeedOptions) -> tuple[str, ...]:
    """The arguments of the task of a feed."""
    return (url, *_options(options))


def _options(options: FeedOptions) -> Iterator[str]:
    if options.plugin != DEFAULT_PLUGIN:
        yield from ("--plugin", options.plugin)
    if options.full_content:
        yield "--full-content"
    if options.links != SAME_HOST:
        yield from ("--links", options.links)
    if options.listed:
        yield "--listed"
    if options.allow_private:
        yield "--allow-private"
    for name, value in options.own:
        yield from ("--option", f"{name}={value}")


def read_feed_args(args: Sequence[str]) -> tuple[str, FeedOptions]:
    """URL and options of the task of a feed.

    :raises ValueError: they make no sense; in words.
    """
    if not args or args[0].startswith("--"):
        raise ValueError("a feed's first argument is its URL")
    found = FeedOptions()
    own: dict[str, str] = {}
    words = iter(args[1:])
    for word in words:
        if word == "--full-content":
            found = attrs.evolve(found, full_content=True)
        elif word == "--listed":
            found = attrs.evolve(found, listed=True)
        elif word == "--allow-private":
            found = attrs.evolve(found, allow_private=True)
        elif word in ("--plugin", "--links", "--option"):
            value = next(words, None)
            if value is None:
                raise ValueError(f"{word} needs a value")
            if word == "--plugin":
                found = attrs.evolve(found, plugin=value)
            elif word == "--links":
                if value not in (SAME_HOST, ANYWHERE):
                    raise ValueError(f"--links is {SAME_HOST} or {ANYWHERE}, not {value[:40]!r}")
                found = attrs.evolve(found, links=value)
            else:
                name, equals, text = value.partition("=")
                if not name or not equals or len(own) >= OPTIONS_MAX:
                    raise ValueError(f"--option is NAME=VALUE, not {value[:80]!r}")
                own[name] = text
        else:
            raise ValueError(f"a feed has no option {word[:80]!r}")
    return args[0], attrs.evolve(found, own=tuple(own.items()))


def wants_texts(spec: JobSpec) -> bool:
    """Whether it is a feed, and the text of the pages that its items lead to is kept."""
    try:
        return spec.kind == "feed" and read_feed_args(spec.args)[1].full_content
    except ValueError:
        return False


def lists_its_site(spec: JobSpec) -> bool:
    """Whether what is polled is the own word of its site: a sitemap, or a feed of which an operator has said so."""
    if spec.command or spec.kind not in ("feed", "sitemap"):
        return False
    if spec.kind == "sitemap":
        return True
    try:
        return read_feed_args(spec.args)[1].listed
    except ValueError:
        return False
