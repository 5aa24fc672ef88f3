"""What a robot says of a fetch that has ended: the one place where outcomes become messages.

A message must pass the bounds of the wire whatever the web server sent; so texts that have no bound of their own get
one here.
"""

from __future__ import annotations

from lcc.errors import CODES, FetchError
from lcc.model import Fetched
from lcc.protocols.work import Done, Fetch

DETAIL_CHARS = 500
URL_CHARS = 8192
VALUE_CHARS = 1024
MESSAGE_CHARS = 200_000


def stored(fetch: Fetch, fetched: Fetched, size_bytes: int, md5: str, elapsed_ms: int, files: str = "") -> str:
    """The content is complete in its file.

    :param files: of a batch: what was stored of it.
    """
    done = Done(
        number=0,
        id=fetch.id,
        pid=fetch.pid,
        key=fetch.key,
        generation=fetch.generation,
        code=0,
        status=fetched.status,
        url=fetched.url[:URL_CHARS],
        size_bytes=size_bytes,
        md5=md5,
        mimetype=_whole(fetched.mimetype),
        charset=_whole(fetched.charset),
        modified=fetched.modified,
        etag=_whole(fetched.etag),
        headers=fetched.headers,
        wire_bytes=fetched.wire_bytes,
        elapsed_ms=elapsed_ms,
        revalidate=fetched.revalidate,
        moved=fetched.moved[:URL_CHARS],
        files=files,
    )
    text = done.to_xml()
    if len(text) <= MESSAGE_CHARS:
        return text
    # Escaping has blown the headers up beyond what the wire takes; the rest matters more.
    return stored(fetch, _without_headers(fetched), size_bytes, md5, elapsed_ms, files)


def unchanged(fetch: Fetch, fetched: Fetched, elapsed_ms: int) -> str:
    """The content that is stored is still the right one."""
    return Done(
        number=0,
        id=fetch.id,
        pid=fetch.pid,
        key=fetch.key,
        generation=fetch.generation,
        code=0,
        status=fetched.status,
        url=fetched.url[:URL_CHARS],
        wire_bytes=fetched.wire_bytes,
        elapsed_ms=elapsed_ms,
        unchanged=fetch.stored,
        headers=fetched.headers if fetch.renew or fetch.polled else "",
    ).to_xml()


def failed(
    fetch: Fetch,
    error: BaseException | None,
    elapsed_ms: int,
    wire_bytes: int = 0,
    retry_seconds: int = 0,
    owed_ms: int = 0,
) -> str:
    """The fetch ended with this exception, after so much had travelled.

    FetchError says what happened; OSError: the content could not be stored; anything else is a fault of the robot.
    """
    status, code = 0, error_code(error)
    if isinstance(error, FetchError):
        detail = error.detail
        status = code if code < 600 else 0
    else:
        detail = str(error) if isinstance(error, OSError) else type(error).__name__
    return Done(
        number=0,
        id=fetch.id,
        pid=fetch.pid,
        key=fetch.key,
        generation=fetch.generation,
        code=code,
        status=status,
        detail=detail[:DETAIL_CHARS],
        wire_bytes=wire_bytes,
        elapsed_ms=elapsed_ms,
        owed_ms=owed_ms,
        retry_seconds=retry_seconds,
    ).to_xml()


def error_code(error: BaseException | None) -> int:
    """Of a fetch that ended with this exception, in the error table."""
    if isinstance(error, FetchError):
        return error.code
    return CODES["store-failed" if isinstance(error, OSError) else "robot-error"]


def _whole(text: str) -> str:
    """A text that makes sense only as a whole: too long is as good as absent."""
    return text if len(text) <= VALUE_CHARS else ""


def _without_headers(fetched: Fetched) -> Fetched:
    return fetched._replace(
        url=fetched.url[:VALUE_CHARS],
        moved=_whole(fetched.moved),
        mimetype=_whole(fetched.mimetype),
        charset=_whole(fetched.charset),
        etag=_whole(fetched.etag),
        headers="",
    )
