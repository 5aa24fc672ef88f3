"""What a stage raises: the job ends with these words."""

from __future__ import annotations


class FeedFault(Exception):
    """The job cannot go on.

    :param text: what is wrong, for people.
    :cvar permanent: trying again with the same content helps nothing (exit code 2); False: it may (exit code 1).
    """

    permanent = True


class TemporaryFeedFault(FeedFault):
    """The job cannot go on now: it is tried again later."""

    permanent = False


class NotAFeed(FeedFault):
    """The document is no feed."""
