"""Which full sets delete so much that somebody has to say that it is meant."""

from __future__ import annotations


def is_mass_deletion(deletions: int, told: int, share: float, floor: int) -> bool:
    """Whether a full set deletes too much to be believed by itself.

    :param deletions: pages that it does not name.
    :param told: these, and the others of the provider in the cache.
    :param share: of them may be deleted; 1: all of it.
    :param floor: deletions up to this many are always believed.
    """
    return deletions > floor and deletions > share * told
