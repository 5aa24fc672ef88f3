"""Which files a manager may run: executables in its own folders that nobody else can replace.

The rule is that of sshd for its users' files (``StrictModes``): the file, its folder and all folders above it belong
to root or to one of the named users, and only their owners can write to them.  A sticky folder such as ``/tmp`` may
be among those above: there nobody can replace what is another's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

COMMANDS_MAX = 1000
_DEPTH_MAX = 3


class Unsafe(Exception):
    """A file must not be run, or a folder not be looked into; says why."""


def find_executable(command: str, folders: Sequence[str], owners: Sequence[int]) -> str:
    """The path of this command in the first of the folders that has it.

    :param command: a name, or a path in a folder such as ``tools/clean``; an absolute path must lead into a folder.
    :param owners: ids of users besides root who may own it.
    :raises Unsafe: there is none that may be run, and why.
    """
    if not command or "\0" in command:
        raise Unsafe("the job names no command")
    if ".." in command.split("/"):
        raise Unsafe(f"{command}: '..' in the name of a command")
    for folder in folders:
        path = os.path.join(folder, command)
        if os.path.lexists(path):
            return checked(path, folder, owners)
    where = ", ".join(folders) or "no folder"
    raise Unsafe(f"{command}: no such worker; this manager's folders: {where}")


def checked(path: str, folder: str, owners: Sequence[int]) -> str:
    """The real path of an executable, once it is safe to run.

    :raises Unsafe: it is not.
    """
    try:
        real, inside = os.path.realpath(path, strict=True), os.path.realpath(folder, strict=True)
        if os.path.commonpath([real, inside]) != inside or real == inside:
            raise Unsafe(f"{path} leads out of {folder}")
        status = os.stat(real)
        if not stat.S_ISREG(status.st_mode):
            raise Unsafe(f"{path} is no file")
        if not status.st_mode & 0o111:
            raise Unsafe(f"{path} is not executable (chmod +x)")
        for each in (real, *_above(real)):
            fault = _fault(each, owners)
            if fault:
                raise Unsafe(f"{path} is not safe to run: {fault}")
    except OSError as error:
        raise Unsafe(f"{path}: {error.strerror or error}") from None
    return real


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _fault(path: str, owners: Sequence[int]) -> str:
    status = os.stat(path)
    if status.st_uid != 0 and status.st_uid not in owners:
        return f"{path} belongs to user {status.st_uid}, not to root or the manager's user"
    if status.st_mode & 0o022 and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        return f"others than its owner can write to {path} (chmod go-w)"
    return ""


def barred_at(path: str, user: int, group: int) -> str:
    """What keeps this user, who has no other group, from executing a file or entering a folder: the outermost folder
    that lacks ``x``, or the file itself; empty: nothing.

    :raises OSError: it is not there.
    """
    real = os.path.realpath(path, strict=True)
    if user == 0:
        return ""
    for each in reversed((real, *_above(real))):
        status = os.stat(each)
        bits = status.st_mode >> (6 if status.st_uid == user else 3 if status.st_gid == group else 0)
        if not bits & 1:
            return each
    return ""


def hint(barred: str) -> str:
    """What to do about something that bars the user of workers (:func:`barred_at`)."""
    if os.path.isdir(barred):
        return (
            f"[manager] user cannot enter {barred}: name a folder that everybody can enter in [manager] workers, "
            'such as "/opt/lcc-workers"'
        )
    return f"[manager] user cannot execute {barred} (chmod 755)"


def all_executables(folders: Iterable[str], owners: Sequence[int]) -> tuple[list[str], dict[str, str]]:
    """The commands in the folders, sorted; and the files that must not, or cannot, be run, with why; at most
    :data:`COMMANDS_MAX` of each."""
    found: set[str] = set()
    faults: dict[str, str] = {}
    for folder in folders:
        for command in _files(folder):
            if len(found) >= COMMANDS_MAX:
                break
            if command in found or command in faults:
                continue
            path = os.path.join(folder, command)
            try:
                if os.path.isfile(path):
                    checked(path, folder, owners)
                    found.add(command)
            except Unsafe as error:
                if len(faults) < COMMANDS_MAX:
                    faults[command] = str(error)
            except OSError:
                continue
    return sorted(found), faults


def _files(folder: str, prefix: str = "", depth: int = 1) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith("."):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            if depth < _DEPTH_MAX:
                yield from _files(path, f"{prefix}{name}/", depth + 1)
        else:
            yield prefix + name
