"""A machine of its own to follow a page on: namespaces in which the page's hosts, folders and users are there.

Nothing of it is seen outside, and it ends with its first process.  ``www.example.org`` and the others are one address
of its loopback interface, a public one, as robots fetch from no other.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.documents import ROOT

ADDRESS = "93.184.215.14"
HOSTS = ("www.example.org", "lcc.example.org", "cache.example.org", "register.example.org", "site", "example.com")
LANS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
NAMESPACES = (
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation=private",
)
AS_ROOT = ("--user", "--map-root-user")
"""For who is not root."""
HOME = Path("/var/home/you")
_EMPTY = ("/var", "/srv", "/opt")
_MS_BIND, _MS_REC = 4096, 16384
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def namespaces() -> list[str]:
    """The command that runs another one on a machine of its own."""
    return [*NAMESPACES, *(() if os.geteuid() == 0 else AS_ROOT)]


def why_not() -> str:
    """Why there can be no such machine here; empty: there can."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "there is no unshare (util-linux), or no ip (iproute2)"
    tried = subprocess.run([*namespaces(), "true"], capture_output=True, text=True, check=False)
    return f"no namespaces can be made here: {tried.stderr.strip()}" if tried.returncode else ""


def set_up() -> None:
    """Make this process's namespaces such a machine.  Only within :func:`namespaces`."""
    keep = Path(tempfile.mkdtemp(prefix="lcc-host-"))
    _mount("tmpfs", keep, "tmpfs")
    kept = [Path(place).resolve() for place in dict.fromkeys((str(ROOT), sys.prefix, sys.base_prefix))]
    for number, place in enumerate(kept):
        (keep / str(number)).mkdir()
        _mount(str(place), keep / str(number), None, _MS_BIND | _MS_REC)
    etc = keep / "etc"
    subprocess.run(["cp", "-a", "/etc", str(etc)], check=False, capture_output=True)  # what may be read
    _mount(str(etc), Path("/etc"), None, _MS_BIND)
    for folder in _EMPTY:
        if Path(folder).is_dir():
            _mount("tmpfs", Path(folder), "tmpfs")
    for number, place in enumerate(kept):
        if not place.exists():
            place.mkdir(parents=True)
            _mount(str(keep / str(number)), place, None, _MS_BIND | _MS_REC)
    for name in ("lib", "log", "tmp", "www/html", "run"):
        (Path("/var") / name).mkdir(parents=True)
    HOME.mkdir(parents=True)
    hosts = "".join(f"{ADDRESS} {name}\n" for name in HOSTS)
    (etc / "hosts").unlink(missing_ok=True)
    Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n{hosts}")
    for command in ("link set lo up", *(f"addr add {address}/32 dev lo" for address in (ADDRESS, *LANS))):
        subprocess.run(["ip", *command.split()], check=True)
    # What was made of it stays; only for this process is it a place where something is mounted.
    _done(_libc.umount2(os.fsencode(keep), _MNT_DETACH), keep)
    keep.rmdir()


def _mount(what: str, where: Path, kind: str | None, flags: int = 0) -> None:
    data = b"mode=755" if kind == "tmpfs" else None
    _done(_libc.mount(what.encode(), os.fsencode(where), kind and kind.encode(), ctypes.c_ulong(flags), data), where)


def _done(returned: int, where: Path) -> None:
    if returned:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(where))
