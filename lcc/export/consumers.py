"""Where an export goes: a command's standard input, a file, or standard output."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from lcc.commands.errors import Failed
from lcc.export.files import replacing
from lcc.export.guardian import Guardian

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

AGAIN = "fix it, and run the same command again: it resumes from the same place"


class Sink(Protocol):
    """Takes bytes."""

    def write(self, data: bytes, /) -> object: ...


class Consumer(Protocol):
    """Who gets the export."""

    def open(self) -> Sink:
        """Begin a stream, after the previous one was closed."""
        ...

    def close(self) -> None:
        """End the stream.

        :raises Failed: the consumer did not take it.
        """
        ...

    def abort(self) -> None:
        """Discard the stream: it is incomplete."""
        ...


class Command:
    """A command that reads the export from its standard input; exit code 0 says that it succeeded.

    It dies with this process, before its input ends: of a stream that merely ends it would think that it was all.

    :param environment: is added to its own.
    """

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        self._words = list(words)
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._input: IO[bytes] | None = None
        self._guardian: Guardian | None = None

    def open(self) -> Sink:
        reading, writing = os.pipe()
        self._input = os.fdopen(writing, "wb")
        try:
            self._guardian = Guardian(writing)
            self.start(reading)
        except OSError as error:
            self._let_go()
            raise _not_started(error) from None
        except BaseException:
            self._let_go()
            raise
        finally:
            os.close(reading)
        return _Pipe(self._input, self._ended)

    def start(self, stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
        """Start it with this standard input."""
        announce = None if self._guardian is None else self._guardian.announce
        try:
            self._process = subprocess.Popen(
                self._words,
                stdin=stdin,
                env={**os.environ, **self._environment},
                start_new_session=True,
                preexec_fn=_die_with(os.getpid(), announce),
            )
        except OSError as error:
            raise _not_started(error) from None
        return self._process

    def close(self) -> None:
        process = self._process
        assert process is not None
        try:
            self._let_go()
        except BrokenPipeError:
            self._ended()
        code = process.wait()
        self._process = None
        if code:
            raise Failed(f"the consumer failed ({_said(code)}); the state file is unchanged", AGAIN)

    def _ended(self) -> None:
        assert self._process is not None
        code = self._process.wait()
        self._process = None
        with suppress(BrokenPipeError):
            self._let_go()
        raise Failed(
            f"the consumer exited before reading everything ({_said(code)}); the state file is unchanged", AGAIN
        ) from None

    def abort(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with suppress(BrokenPipeError):
            self._let_go()

    def _let_go(self) -> None:
        """Close the consumer's input.

        :raises BrokenPipeError: it has ended before.
        """
        file, self._input = self._input, None
        guardian, self._guardian = self._guardian, None
        try:
            if file is not None:
                file.close()
        finally:
            if guardian is not None:
                guardian.release()


class File:
    """A file, which is there when all of it is on the disk.

    :param keep: a file that is there has not been read yet: it must not be replaced.
    """

    def __init__(self, path: Path, keep: bool) -> None:
        self._path = path
        self._keep = keep
        self._open = ExitStack()

    def open(self) -> Sink:
        if self._keep and self._path.exists():
            raise Failed(f"{self._path} already exists and would be overwritten", "use it and remove it first")
        with _as_failure():
            return _Disk(self._open.enter_context(replacing(self._path)))

    def close(self) -> None:
        with _as_failure():
            self._open.close()

    def abort(self) -> None:
        with suppress(_Aborted):
            self._open.__exit__(_Aborted, _Aborted(), None)


class _Aborted(Exception):
    pass


class Output:
    """Standard output: nobody knows who reads it, and with what success."""

    def open(self) -> Sink:
        return _Pipe(sys.stdout.buffer, _output_ended)

    def close(self) -> None:
        try:
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            _output_ended()

    def abort(self) -> None:
        """Output cannot be taken back; the exit code tells."""


class _Pipe:
    def __init__(self, file: IO[bytes], ended: Callable[[], None]) -> None:
        self._file = file
        self._ended = ended

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except BrokenPipeError:
            self._ended()


class _Disk:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        with _as_failure():
            self._file.write(data)


@contextmanager
def _as_failure() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failed(str(error), "free some space, or choose another file, and run the same command again") from None


def _output_ended() -> None:
    # What is left in the buffer must not be tried again at the interpreter's end.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    raise Failed("the reader closed the output", AGAIN)


def _said(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _not_started(error: OSError) -> Failed:
    return Failed(f"cannot start the consumer: {error}", "check the command after --")


def _die_with(parent: int, announce: Callable[[], None] | None) -> Callable[[], None]:
    def prepare() -> None:
        if announce is not None:
            announce()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was too late
            os._exit(127)

    return prepare
