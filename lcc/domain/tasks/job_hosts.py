"""On which hosts a job may run: ``allow:HOST`` and ``deny:HOST``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

_RULE = re.compile(r"(?:allow|deny):[A-Za-z0-9*?._-]{1,253}", re.ASCII).fullmatch
RULES_MAX = 50


def check_rules(rules: Sequence[str]) -> None:
    """:raises ValueError: one of them is not of the form, or together they allow no host."""
    if len(rules) > RULES_MAX:
        raise ValueError(f"{len(rules)} hosts are allowed and denied; at most {RULES_MAX} may be")
    for rule in rules:
        if not _RULE(rule):
            raise ValueError(f"{rule[:80]!r} is not like allow:HOST or deny:HOST; * stands for any characters")
        if rule.startswith("deny:") and not rule[5:].strip("*"):
            raise ValueError(f"{rule!r} denies all hosts: nothing would ever run it")


def may_run(rules: Sequence[str], host: str) -> bool:
    """Whether a job with these rules may run on this host: it is allowed, if any is named so, and not denied."""
    host = host.lower()
    allowed = [rule[6:].lower() for rule in rules if rule.startswith("allow:")]
    denied = [rule[5:].lower() for rule in rules if rule.startswith("deny:")]
    if any(fnmatchcase(host, pattern) for pattern in denied):
        return False
    return not allowed or any(fnmatchcase(host, pattern) for pattern in allowed)
