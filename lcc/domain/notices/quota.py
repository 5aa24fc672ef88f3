"""Quotas of files and of space: whether there is room for the content of one more URL.  Pure decisions."""

from __future__ import annotations

from lcc.errors import code
from lcc.model import Quota

_FILES, _SPACE = code("quota-files"), code("quota-space")


def over_quota(quota: Quota, is_new: bool, files: int, space_bytes: int, length: int | None) -> int:
    """The error that there is no room; 0: there is (parameters: :class:`lcc.interfaces.IQueueRules`).

    What is empty fits always; of what has an unknown length it is only known that nothing fits where all is used up.
    A quota that was made smaller than what is used takes nothing away: only what is new, or grows, is refused.
    """
    if is_new and quota.files_max is not None and files >= quota.files_max:
        return _FILES
    if quota.space_max_bytes is None:
        return 0
    if length is None:
        return _SPACE if is_new and space_bytes >= quota.space_max_bytes else 0
    return _SPACE if length > 0 and space_bytes + length > quota.space_max_bytes else 0
