"""Which full sets delete so much that somebody has to say that it is meant."""

from __future__ import annotations


def is_mass_deletion(deletions: int, cached: int, share: float, floor: int) -> bool:
    """Whether a full set deletes too much to be believed by itself.

    :param deletions: pages that it does not name.
    :param cached: pages of the provider in the cache, those included.
    :param share: of what is cached may be deleted; 1: all of it.
    :param floor: deletions up to this many are always believed.
    """
    return deletions > floor and deletions > share * cached
