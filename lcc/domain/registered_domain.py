"""The registered domain of a host: what somebody has bought, below a public suffix such as ``com`` or ``co.uk``.

Whoever has a domain makes as many hosts in it as he likes (wildcard DNS): so hosts are counted by it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from publicsuffixlist import PublicSuffixList

from lcc.domain.registration.sites import without_port

_ADDRESS = re.compile(r"\[.*|.*\.\d+|\d+").fullmatch


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    # As the package brings it: nothing is downloaded.
    return PublicSuffixList()


@lru_cache(maxsize=4096)
def registered_domain(host: str) -> str:
    """The registered domain of a host; of an address, a single label or a public suffix: the host itself.

    :param host: of a normal URL; its port does not count.
    """
    name = without_port(host)
    if _ADDRESS(name):
        return name
    return _suffixes().privatesuffix(name) or name
