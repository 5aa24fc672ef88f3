"""Start lists: files of URLs, one in each line (LARM's ``@STARTURLFILE``)."""

from __future__ import annotations

from collections.abc import Iterable

from lcc.domain.urls import URL_CHARS, names_scheme, normalise
from lcc.errors import ConfigError, UrlError

LINES_MAX = 1_000_000
FAULTS_MAX = 20
"""Bad lines that are named; the rest is counted."""


def read_start_list(lines: Iterable[str], schemes: tuple[str, ...]) -> list[str]:
    """The URLs of a file, each once, normal and without fragments.

    ``#`` begins a comment: of a URL it would be the fragment, which is dropped anyway.

    :param lines: bytes that are not UTF-8 are surrogates in them (``errors="surrogateescape"``).

    :raises ConfigError: with the bad lines, by number, or that there is no URL.
    """
    urls: dict[str, None] = {}
    faults: list[str] = []
    bad = 0
    for number, line in enumerate(lines, 1):
        if number > LINES_MAX:
            raise ConfigError([f"more than {LINES_MAX} lines"])
        text = line.removeprefix("\ufeff" if number == 1 else "").partition("#")[0].strip()
        if not text:
            continue
        try:
            text.encode()
            urls[start_url(text, schemes)] = None
        except UnicodeEncodeError:
            bad += 1
            if bad <= FAULTS_MAX:
                faults.append(f"line {number}: not UTF-8")
        except ConfigError as error:
            bad += 1
            if bad <= FAULTS_MAX:
                faults.append(f"line {number}: {error.faults[0]}")
    if bad > FAULTS_MAX:
        faults.append(f"and {bad - FAULTS_MAX} more")
    if not urls and not faults:
        faults.append("no URL in it")
    if faults:
        raise ConfigError(faults)
    return list(urls)


def start_url(text: str, schemes: tuple[str, ...]) -> str:
    """A start URL, normal and without fragment.

    :raises ConfigError: it is none.
    """
    shown = repr(text[:80] + ("…" if len(text) > 80 else ""))
    if len(text) > URL_CHARS:
        raise ConfigError([f"{shown} has more than {URL_CHARS} characters"])
    if not names_scheme(text):
        raise ConfigError([f"{shown} does not begin with http:// or another scheme"])
    try:
        url = normalise(text).partition("#")[0]
    except UrlError as error:
        raise ConfigError([f"{shown}: {error.text}"]) from None
    if not url.startswith(tuple(f"{scheme}://" for scheme in schemes)):
        raise ConfigError([f"{shown}: spiders follow {', '.join(schemes)} only"])
    return url
