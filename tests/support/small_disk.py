"""Small file systems that a test can fill up: real ones, in memory.

Mounting takes a privilege.  Who is not root gets it in a user namespace of its own, where only this test runs
(:func:`run_in_namespace`): nothing of it is seen outside.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

MS_RDONLY, MS_REMOUNT = 1, 32
MNT_DETACH = 2
INSIDE = "LCC_TEST_IN_NAMESPACE"
NAMESPACE = ("unshare", "--user", "--map-current-user", "--keep-caps", "--mount")
_libc = ctypes.CDLL(None, use_errno=True)


def _mount(path: Path, flags: int, options: str) -> None:
    if _libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))


class SmallDisk:
    """A tmpfs.

    :ivar path: where it is mounted; anybody may go there.
    """

    def __init__(self, size_bytes: int, files: int = 100_000) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="lcc-disk-"))
        self._options = f"size={size_bytes},nr_inodes={files},mode=755"
        self._files = 0
        try:
            _mount(self.path, 0, self._options)
        except OSError:
            self.path.rmdir()
            raise

    @property
    def free_bytes(self) -> int:
        """What is left."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Leave only so much (a multiple of a page)."""
        with (self.path / "ballast").open("ab", buffering=0) as file:
            while (more := self.free_bytes - leave_bytes) > 0:
                with suppress(OSError):
                    file.write(bytes(min(more, 1 << 20)))

    def use_up_files(self) -> None:
        """Leave room for no further file."""
        while os.statvfs(self.path).f_ffree:
            self._files += 1
            with suppress(OSError):
                (self.path / f"junk{self._files}").touch()

    def make_room(self) -> None:
        """Take back what the test has put there."""
        (self.path / "ballast").unlink(missing_ok=True)
        for file in self.path.glob("junk*"):
            file.unlink()

    def set_read_only(self, read_only: bool) -> None:
        """Mount it anew.

        :raises OSError: a file is open for writing.
        """
        _mount(self.path, MS_REMOUNT | (MS_RDONLY if read_only else 0), self._options)

    def close(self) -> None:
        """Unmount it; what was there is gone."""
        _libc.umount2(os.fsencode(self.path), MNT_DETACH)
        shutil.rmtree(self.path, ignore_errors=True)


@cache
def may_mount() -> bool:
    """Whether this process may mount."""
    try:
        SmallDisk(65536).close()
    except OSError:
        return False
    return True


@cache
def why_no_namespace() -> str:
    """Why no user namespace can be had here; empty: it can."""
    if os.environ.get(INSIDE):
        return "this process may not mount, not even in the namespace that was made for it"
    if shutil.which("unshare") is None:
        return "this process may not mount, and there is no unshare (util-linux)"
    tried = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return f"this process may not mount, nor make a namespace: {tried.stderr.strip()}" if tried.returncode else ""


def run_in_namespace(test: str, folder: Path) -> None:
    """Run a test where it may mount.

    :param test: as ``pytest`` names it.
    :param folder: where ``pytest`` was started.
    """
    result = subprocess.run(
        [*NAMESPACE, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=folder,
        env=dict(os.environ, **{INSIDE: "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
