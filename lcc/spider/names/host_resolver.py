"""LARM's HostResolver: hosts that are one host to a crawl.

Its file has Java's properties (seed 004)::

    startsWith(www.)=
    endsWith(.somehost.com)=.somhost2.com
    synonym(daedalus.apache.org)=apache.org

The first ``startsWith`` that fits is applied, then the first ``endsWith``, then the synonym, in the order of the
file; a comma in a host means a dot.  Here, a synonym's synonym is followed, too: ``a=b`` and ``b=c`` make one host of
three.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from lcc.errors import ConfigError
from lcc.spider.names.properties import properties

FILE_BYTES_MAX = 1 << 20
"""Of a file of rules."""
RULES_MAX = 10_000
_RULE = re.compile(r"(startsWith|endsWith|synonym)\(([^()]*)\)")
_PART = re.compile(r"[a-z0-9._-]*")


class Rule(NamedTuple):
    """Replace one end of a host."""

    part: str
    by: str


class HostResolver:
    """Replaces hosts by the one that stands for them.  Nothing is looked up in any network.

    :param synonyms: host -> the one that stands for it, of which there is none here.
    """

    def __init__(
        self, starts: tuple[Rule, ...] = (), ends: tuple[Rule, ...] = (), synonyms: Mapping[str, str] | None = None
    ) -> None:
        self._starts = starts
        self._ends = ends
        self._synonyms = dict(synonyms or {})
        self.resolve = lru_cache(maxsize=10_000)(self._resolve)

    def __bool__(self) -> bool:
        return bool(self._starts or self._ends or self._synonyms)

    def _resolve(self, host: str) -> str:
        """The host that stands for this one, which may be itself.

        :param host: lower case, without port.
        """
        found = host
        for start in self._starts:
            if found.startswith(start.part):
                found = start.by + found[len(start.part) :]
                break
        for end in self._ends:
            if found.endswith(end.part):
                found = found[: len(found) - len(end.part)] + end.by
                break
        # A rule that leaves nothing was not meant for this host.
        return self._synonyms.get(found, found) or host


def read_host_resolver(text: str) -> HostResolver:
    """The rules of a file.

    :raises ConfigError: with all bad lines, by number.
    """
    if len(text) > FILE_BYTES_MAX:
        raise ConfigError([f"more than {FILE_BYTES_MAX} characters"])
    rules: dict[str, dict[str, str]] = {"startsWith": {}, "endsWith": {}, "synonym": {}}
    lines: dict[str, int] = {}
    faults: list[str] = []
    for number, key, value in properties(text):
        match = _RULE.fullmatch(key)
        if match is None:
            faults.append(f"line {number}: {key[:60]!r} is none of startsWith(…), endsWith(…), synonym(…)")
            continue
        kind, part, by = match[1], _host(match[2]), _host(value.strip())
        if part is None or by is None:
            faults.append(f"line {number}: {kind}: hosts have letters, digits, '-', '_' and '.' (or ',') only")
        elif not part or (kind == "synonym" and not by):
            faults.append(f"line {number}: {kind}: a host is missing")
        elif rules[kind].get(part, by) != by:
            faults.append(f"line {number}: {kind}({part}) was {rules[kind][part]!r} before")
        else:
            rules[kind][part] = by
            if kind == "synonym":
                lines[part] = number
    if len(lines) + len(rules["startsWith"]) + len(rules["endsWith"]) > RULES_MAX:
        faults.append(f"more than {RULES_MAX} rules")
    synonyms = _followed(rules["synonym"], lines, faults)
    if faults:
        raise ConfigError(faults)
    return HostResolver(
        tuple(Rule(*pair) for pair in rules["startsWith"].items()),
        tuple(Rule(*pair) for pair in rules["endsWith"].items()),
        synonyms,
    )


def _host(text: str) -> str | None:
    host = text.replace(",", ".").lower()
    return host if _PART.fullmatch(host) else None


def _followed(synonyms: Mapping[str, str], lines: Mapping[str, int], faults: list[str]) -> dict[str, str]:
    """Each synonym with the host that stands for it in the end."""
    ends: dict[str, str] = {}
    for first in synonyms:
        path: list[str] = []
        on_path: set[str] = set()
        host = first
        while host in synonyms and host not in ends and host not in on_path:
            path.append(host)
            on_path.add(host)
            host = synonyms[host]
        if host in on_path:
            circle = [f"{each} (line {lines[each]})" for each in path[path.index(host) :]]
            faults.append(f"line {lines[host]}: synonyms in a circle: {' -> '.join([*circle[:20], host])}")
        ends.update(dict.fromkeys(path, ends.get(host, host)))
    return ends
