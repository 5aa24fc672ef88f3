"""Scopes: expressions as Perl has them, which URLs begin with.

``http://([a-z]+\\.)?example\\.org/(?!private/)``: an expression is held to the beginning of a curl, so that no other
site is in a scope by naming it somewhere in its URLs; ``$`` holds it to the end.

An expression can take exponential time.  One that does so with URLs made to provoke this is refused when it is
configured.  Else each look has a limit, and what reaches it does not match; after some of these nothing matches.
"""

from __future__ import annotations

import regex

from lcc.errors import ConfigError

SCOPE_CHARS = 2000
"""Of an expression."""
LOOK_SECONDS = 0.02
"""Of processor time, for one URL.  Whatever the expression, a crawl costs the reactor at most ten times that in looks
that come to nothing; of 1,500 random expressions none took more than 25 ms."""
TIMEOUTS_MAX = 10
_COUNTED = regex.compile(r"\{(\d*)(?:,(\d*))?\}")
_REPEATS_MAX = 1000
"""Of all counted repetitions in each other: the compiler writes them out."""
_PROBE_CHARS = 60
_UNITS = ("a/", "a.", "x=1&", "ab", "%20", "-", "a", "1")
_LITERAL = regex.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^A-Za-z0-9])*")
"""What an expression says as it stands."""


class Scope:
    """A compiled scope.

    :ivar timeouts: looks that reached their limit; from :data:`TIMEOUTS_MAX` on there are no more looks.
    :param anywhere: what it matches may begin anywhere in a URL.
    :raises ConfigError: the expression is not valid, too long, or too expensive.
    """

    def __init__(self, expression: str, anywhere: bool = False) -> None:
        self.expression = expression
        self.timeouts = 0
        compiled = _compiled(expression)
        self._look = compiled.search if anywhere else compiled.match
        self._probe()

    @property
    def is_exhausted(self) -> bool:
        """It took too long too often: it matches nothing any longer."""
        return self.timeouts >= TIMEOUTS_MAX

    def contains(self, url: str) -> bool:
        """Whether a URL is in the scope."""
        if self.timeouts >= TIMEOUTS_MAX:
            return False
        try:
            return self._look(url, timeout=LOOK_SECONDS) is not None
        except TimeoutError:
            self.timeouts += 1
            return False

    def _probe(self) -> None:
        """Try it with URLs that repeat what it may repeat, and end otherwise."""
        own = dict.fromkeys(char for char in self.expression if char.isalnum())
        literal = _LITERAL.match(self.expression)
        begin = regex.sub(r"\\(.)", r"\1", literal[0]) if literal else ""
        for start in dict.fromkeys(("http://www.example.org/", "http://", begin)):
            for unit in (*_UNITS, *own):
                url = start + unit * (_PROBE_CHARS // len(unit)) + "\x01"
                if not self.contains(url) and self.timeouts:
                    raise ConfigError([f"the expression repeats repetitions, as (a+)+: too slow with {url[:40]}…"])


def _compiled(expression: str) -> regex.Pattern[str]:
    if len(expression) > SCOPE_CHARS:
        raise ConfigError([f"the expression has more than {SCOPE_CHARS} characters"])
    repeats = 1
    for match in _COUNTED.finditer(expression):
        repeats *= max(int(match[2] or match[1] or 1), 1) if len(match[0]) < 20 else _REPEATS_MAX + 1
        if repeats > _REPEATS_MAX:
            raise ConfigError([f"the expression counts too far: its {{…}} make more than {_REPEATS_MAX} together"])
    try:
        return regex.compile(expression, regex.VERSION0)
    except regex.error as error:
        raise ConfigError([f"the expression is not valid: {error}"]) from None
    except (RecursionError, OverflowError, MemoryError):
        raise ConfigError(["the expression is too deeply nested"]) from None
