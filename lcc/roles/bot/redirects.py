"""Where a redirect may lead: nowhere but into the provider's own roots; what is polled, anywhere."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from lcc.domain.urls import Roots, followed_redirect, redirect_outside

Follow = Callable[[str, str], str]

RULES_KEPT = 1024


class Redirects:
    """The rules of the providers that were served last, because making one costs more than using it."""

    def __init__(self, kept: int = RULES_KEPT) -> None:
        self._kept = kept
        self._rules: OrderedDict[str, Follow] = OrderedDict()

    def rule(self, roots: str, polled: bool = False) -> Follow:
        """The rule for these roots.

        :param polled: they do not matter.

        :param roots: normalised URL prefixes, separated by spaces.
        :return: ``follow(url, location)``, which gives the normalised URL that a redirect leads to, and raises
            FetchError where it must not be followed.
        """
        if polled:
            return followed_redirect
        rule = self._rules.get(roots)
        if rule is None:
            if len(self._rules) >= self._kept:
                self._rules.popitem(last=False)
            rule = self._rules[roots] = _make_rule(Roots(roots.split()))
        else:
            self._rules.move_to_end(roots)
        return rule


def _make_rule(roots: Roots) -> Follow:
    def follow(url: str, location: str) -> str:
        target = followed_redirect(url, location)
        if not roots.contains(target):
            raise redirect_outside(target)
        return target

    return follow
