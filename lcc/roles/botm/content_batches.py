"""The pieces of a batch of content files, as the content port sends it (:mod:`lcc.protocols.content_batch`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from twisted.logger import Logger

from lcc.interfaces import IContentFolder
from lcc.model.content_batches import FILE_BYTES_MAX
from lcc.protocols.content_batch import TOO_LARGE, write_file
from lcc.roles.botm.content_sender import PIECE_BYTES

_log = Logger()


def batch_pieces(
    content: IContentFolder,
    is_suspect: Callable[[int], bool],
    is_damaged: Callable[[int], bool],
    files: Sequence[int],
) -> Iterator[bytes]:
    """
    :param is_suspect: a crash of the machine may have damaged this file; it is being verified.
    :param is_damaged: it has.
    """
    pieces: list[bytes] = []
    size = 0
    for file in files:
        piece = write_file(503) if is_suspect(file) else write_file(410) if is_damaged(file) else _file(content, file)
        pieces.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


def _file(content: IContentFolder, file: int) -> bytes:
    try:
        reader = content.read(file)
    except (FileNotFoundError, NotADirectoryError):
        return write_file(410)
    except OSError as error:
        _log.error("Cannot read content file {file}: {error}", file=file, error=str(error))
        return write_file(500)
    try:
        size = reader.size_bytes
        if size > FILE_BYTES_MAX:
            return write_file(TOO_LARGE)
        data = reader.read(0, size)
        if len(data) != size:
            raise OSError("the file is shorter than it was")
    except OSError as error:
        _log.error("Cannot read content file {file}: {error}", file=file, error=str(error))
        return write_file(500)
    finally:
        reader.close()
    return write_file(200, data)
