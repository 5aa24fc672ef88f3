"""When a web server may be asked whether what is stored has changed, instead of for the content."""

from __future__ import annotations

from lcc.model import CachedState, UrlNotice


def may_be_unchanged(notice: UrlNotice, cached: CachedState) -> bool:
    """Whether a notice leaves it open that the cached content is still the right one.

    A provider that tells of another md5 or length than before has other content.  A server that says "not modified"
    all the same is mistaken: nginx, for one, makes its entity tags of the time in seconds and the length.
    """
    if notice.md5 and notice.md5 not in (cached.md5, cached.told_md5):
        return False
    return notice.length is None or notice.length in (cached.length, cached.told_length)
