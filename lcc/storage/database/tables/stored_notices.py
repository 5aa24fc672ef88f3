"""A whole notice in one column (``urlerrs.notice``): a JSON object of its fields by name.

Fields with their default are left out, and names that this version does not know are ignored: so a new attribute of
``<url>`` needs no migration of what is stored.  ``sent`` has a column of its own.
"""

from __future__ import annotations

import json

from lcc.model import UrlNotice

_DEFAULTS = UrlNotice._field_defaults
_NAMES = tuple(name for name in UrlNotice._fields if name != "sent")
"""Tables hold these names: renaming a field of UrlNotice needs a conversion."""
_LISTED = (
    *("curl", "furl", "burl", "mimetype", "subtype", "md5", "length", "mtime", "hours"),
    *("delete", "ifabsent", "named_only"),
)
"""What the values of a JSON list mean, as version 0.1.0 stored notices.  Never to be changed."""


def write_notice(notice: UrlNotice) -> str:
    """The notice as it is stored, without ``sent``."""
    fields = {
        name: value
        for name, value in zip(UrlNotice._fields, notice, strict=True)
        if name != "sent" and value != _DEFAULTS.get(name)
    }
    return json.dumps(fields, separators=(",", ":"))


def read_notice(stored: str, sent: str) -> UrlNotice:
    """The notice that :func:`write_notice`, or version 0.1.0, has stored."""
    fields = json.loads(stored)
    if isinstance(fields, list):
        # A queue manager of 0.1.0 that still runs writes them into tables that are converted.
        fields = dict(zip(_LISTED, fields, strict=True))
    return UrlNotice(**{name: fields[name] for name in _NAMES if name in fields}, sent=sent)
