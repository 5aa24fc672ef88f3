"""What a built-in worker (feed, sitemap, robots) is given: the content that a poll has changed.

The scheduler writes it into the job's input; the manager fetches the content from the BOT-M's content port into a
file, and starts the worker with its path in the environment variable :data:`CONTENT_FILE`.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import attrs

from lcc.model.tasks import INPUT_BYTES_MAX
from lcc.numbers import INT64_MAX

CONTENT_FILE = "LCC_CONTENT_FILE"
"""Environment variable of a worker: the path of the content."""


@attrs.frozen
class PolledContent:
    """Changed content.

    :ivar url: that was asked for.
    :ivar machine, file: where the content file is.
    :ivar key: of the row in the cache, 40 hexadecimal digits.
    :ivar base: what it came from, after redirects; empty: ``url``.
    :ivar content_type: as the server said, with its charset.
    :ivar max_age: so many seconds it may be kept, as the server said; 0: it did not.
    :ivar links: the values of its header fields ``Link``, a line each.
    """

    url: str
    machine: int
    file: int
    size_bytes: int
    md5: str
    key: str
    base: str = ""
    content_type: str = ""
    max_age: int = 0
    links: str = ""

    def to_json(self) -> str:
        """As the job's input; without ``links``, then without ``base``, if it would be too long."""
        values = {name: value for name, value in attrs.asdict(self).items() if value != ""}
        text = json.dumps(values, separators=(",", ":"))
        for name in ("links", "base"):
            if len(text) > INPUT_BYTES_MAX and name in values:
                del values[name]
                text = json.dumps(values, separators=(",", ":"))
        return text

    @property
    def digest(self) -> bytes:
        """A hash of 16 bytes of what there is to read: not of where it lies, or how long it may be kept."""
        read = attrs.evolve(self, machine=0, file=0, max_age=0)
        return blake2b(repr(attrs.astuple(read)).encode("utf-8", "replace"), digest_size=16).digest()

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> PolledContent:
        """What :meth:`to_json` has written, unknown fields ignored.

        :raises ValueError: it was not.
        """
        found: dict[str, Any] = {}
        for field in attrs.fields(cls):
            value = values.get(field.name, field.default)
            good = 0 <= value <= INT64_MAX if type(value) is int else type(value) is str
            if not good or (type(value) is int) != (field.type in (int, "int")):
                raise ValueError(f"the job's input has no {field.name}")
            found[field.name] = value
        return cls(**found)

    @classmethod
    def from_json(cls, text: str) -> PolledContent:
        """The same of a text."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise ValueError("the job's input is no JSON object")
        return cls.from_values(values)
