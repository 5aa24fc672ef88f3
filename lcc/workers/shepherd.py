"""The shepherd of a job: the process between the manager's launcher and one worker.

What it owns
    The worker and whatever that forks: it is their *subreaper*, so that a process whose parent has died becomes its
    child, whatever session or process group it has moved to.  And the job's own folder.

What it does
    It finds the executable, makes the job's folder, forks, sets the limits, gives up its rights, and executes.  Then
    it waits: for the worker, for what the manager says, for the time.  TERM goes to all processes of the job, KILL
    too: these are stopped first, until no new ones are found (:func:`lcc.workers.linux.kill_descendants`).  When the
    worker has ended, what it has left behind is killed, and the end reported: at that moment no process of the job
    exists any longer.  A job has ended when its worker has.

Failures
    *The manager is gone*, killed or not: its socket closes, and everything is killed at once.  *The manager hangs*,
    or hears nothing of its scheduler: the lease ends, and everything is killed.  *The launcher is gone*: nothing, the
    shepherd does not need it.  *The shepherd is killed*: the worker is killed by the kernel (PDEATHSIG); what that
    has forked becomes the launcher's, which kills it.

What it cannot do
    A worker that runs as the manager's own user can kill shepherd, launcher and manager, as any process of that user
    can: a manager that runs as root has workers of another user.  Work that a worker hands to others (cron, at, a
    systemd) is not the job's.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import importlib
import os
import resource
import select
import signal
import socket
import stat
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from lcc.workers import launch, linux
from lcc.workers.executables import Unsafe, barred_at, find_executable, hint
from lcc.workers.folders import remove
from lcc.workers.launch import LEASE_WAS_OVER, Launch, Limits, Report

DESCRIPTOR = 3
"""Where a worker talks with its manager."""
_LOOK_SECONDS = 1.0
_KILL_SECONDS = 0.1
_REAP_SECONDS = 0.002
_FILES_MAX = 100_000
_LINE_BYTES_MAX = 4096
_UMASK = 0o077
FIRST_DESCRIPTOR = 10
"""Launcher and shepherd keep theirs above those that a worker gets."""


def tend(job: Launch, output: int, descriptor: int, control: socket.socket) -> None:
    """Carry out one job, from its start to its last process.  Returns when that is reported.

    :param output: where the worker's output goes.
    :param descriptor: what it gets as descriptor 3.
    """
    shepherd = _Shepherd(job, control)
    try:
        shepherd.start(output, descriptor)
        # The worker's ends are its own now: what reads them sees the end when the worker has ended.
        os.close(output)
        os.close(descriptor)
        shepherd.watch()
    except _Refused as error:
        shepherd.say(Report(refused=str(error), again=error.again))
    finally:
        shepherd.clean()


class _Refused(Exception):
    def __init__(self, text: str, again: bool = False) -> None:
        super().__init__(text)
        self.again = again


class _Shepherd:
    def __init__(self, job: Launch, control: socket.socket) -> None:
        self._job = job
        self._control = control
        self._folder = ""
        self._pid = 0
        self._why = ""
        self._told = b""
        self._manager_is_gone = False
        self._lease_until = job.lease_until
        self._kill_time: float | None = None
        self._status: int | None = None
        self._usage: resource.struct_rusage | None = None
        seconds = job.limits.seconds
        self._time_is_over = linux.boot_seconds() + seconds if seconds else None

    # The worker.

    def start(self, output: int, descriptor: int) -> None:
        linux.adopt_orphans()
        job = self._job
        path = ""
        if not job.call:
            try:
                path = find_executable(job.command, job.folders, job.owners)
            except Unsafe as error:
                raise _Refused(str(error)) from None
        try:
            self._make_folder()
            if job.lease_until and linux.boot_seconds() >= job.lease_until:
                raise _Refused(LEASE_WAS_OVER, True)
            errors, told = (moved_up(each) for each in os.pipe())  # the latter is closed by the worker's execve
            self._pid = os.fork()
        except OSError as error:
            raise _Refused(f"cannot start {job.command or job.call}: {error.strerror or error}", True) from None
        if self._pid == 0:
            os.close(errors)
            _become_worker(job, path, self._folder, output, descriptor, told)
        os.close(told)
        with os.fdopen(errors, "rb") as file:
            fault = file.read().decode("utf-8", "replace")
        if fault:
            os.waitpid(self._pid, 0)
            number, _, text = fault.partition(" ")
            again = number in (str(errno.EAGAIN), str(errno.ENOMEM), str(errno.ETXTBSY))
            if number == str(errno.EACCES):
                text += _why_barred(job, path)
            raise _Refused(f"cannot start {path or job.call}: {text}", again)
        self.say(Report(pid=self._pid))

    def _make_folder(self) -> None:
        job = self._job
        if not job.scratch:
            return
        folder = os.path.join(job.scratch, f"job-{job.job}")
        remove(folder)
        os.mkdir(folder, 0o700)
        self._folder = folder
        if job.user is not None:
            os.chown(folder, job.user, -1 if job.group is None else job.group)
        job.environment.update(TMPDIR=folder, HOME=folder)

    # Until it has ended.

    def watch(self) -> None:
        """Wait for the worker's end, and see to it."""
        worker = os.pidfd_open(self._pid)
        poll = select.poll()
        poll.register(worker, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(self._wait_ms())}
            if worker in ready:
                break
            if self._control.fileno() in ready and not self._listen():
                poll.unregister(self._control)
            self._look()
            self._reap()
        os.close(worker)
        left: set[int] = set()
        while self._reap():
            left |= linux.kill_descendants(os.getpid())
            time.sleep(_REAP_SECONDS)
        assert self._usage is not None  # it has just been waited for
        self.clean()
        cpu = self._usage.ru_utime + self._usage.ru_stime
        resident = self._usage.ru_maxrss * 1024
        self.say(Report(status=self._status, why=self._why, left=len(left), cpu_seconds=cpu, memory_bytes=resident))

    def _wait_ms(self) -> float:
        times = [
            linux.boot_seconds() + _LOOK_SECONDS,
            self._time_is_over if self._kill_time is None else self._kill_time,
        ]
        if self._lease_until:
            times.append(self._lease_until)
        return max(0.0, min(each for each in times if each is not None) - linux.boot_seconds()) * 1000 + 1

    def _listen(self) -> bool:
        """What the manager says; False: it is gone."""
        try:
            data = self._control.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._manager_is_gone = True
            self._end(launch.TOLD, at_once=True)
            return False
        *lines, rest = (self._told + data).split(b"\n")
        self._told = rest[:_LINE_BYTES_MAX]
        for line in lines:
            word, _, argument = line.decode("ascii", "replace").partition(" ")
            if word in (launch.TERM, launch.KILL):
                self._end(launch.TOLD, at_once=word == launch.KILL)
            elif word == launch.LEASE:
                with suppress(ValueError):
                    self._lease_until = max(self._lease_until, float(argument))
        return True

    def _look(self) -> None:
        now = linux.boot_seconds()
        if self._kill_time is not None and now >= self._kill_time:
            self._kill()
        if self._lease_until and now >= self._lease_until:
            self._end(launch.LEASE_OVER, at_once=True)
        if self._time_is_over is not None and now >= self._time_is_over:
            self._end(launch.SECONDS)
        disk_bytes = self._job.limits.disk_bytes
        if disk_bytes and self._folder and not self._why and _used_bytes(self._folder, disk_bytes) > disk_bytes:
            self._end(launch.DISK, at_once=True)

    def _end(self, why: str, at_once: bool = False) -> None:
        """End all processes of the job, for this reason; the first reason stays."""
        if at_once:
            self._why = self._why or why
            self._kill()
        elif not self._why:
            self._why = why
            for pid in linux.descendants(os.getpid()):
                linux.send_signal(pid, signal.SIGTERM)
                linux.send_signal(pid, signal.SIGCONT)  # one that is stopped could not end itself
            self._kill_time = linux.boot_seconds() + self._job.limits.grace_seconds

    def _kill(self) -> None:
        linux.kill_descendants(os.getpid())
        self._kill_time = linux.boot_seconds() + _KILL_SECONDS  # unless all is over by then

    def _reap(self) -> bool:
        """Take leave of children that have ended, adopted ones, too; whether there are others."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._status, self._usage = status, usage

    def clean(self) -> None:
        """Remove the job's folder."""
        if self._folder:
            remove(self._folder)
            self._folder = ""

    def say(self, report: Report) -> None:
        """Tell the manager, if it is there."""
        if not self._manager_is_gone:
            with suppress(OSError):
                self._control.sendall(report.to_line())


def _used_bytes(folder: str, enough: int) -> int:
    """What the files in a folder take on the disk; more than ``enough``, or than some files, is not counted."""
    used = count = 0
    ahead = [folder]
    while ahead and used <= enough:
        try:
            with os.scandir(ahead.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > _FILES_MAX:
                        return enough + 1
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # removed meanwhile; the others count
                    used += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        ahead.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return enough + 1  # what is below could not be counted
            continue  # removed meanwhile
    return used


def moved_up(descriptor: int) -> int:
    """The descriptor as one above those that a worker gets."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
    os.close(descriptor)
    return moved


def _why_barred(job: Launch, path: str) -> str:
    """What the worker's user may not enter or execute, and what to do; empty: that is not it."""
    if not path or job.user is None or job.group is None:
        return ""
    with suppress(OSError):
        if barred := barred_at(path, job.user, job.group):
            return f"; {hint(barred)}"
    return ""


# In the worker's process, between fork and execve.


def _become_worker(job: Launch, path: str, folder: str, output: int, descriptor: int, told: int) -> NoReturn:
    """Be the worker; what fails before it runs is told in words, with the number of the error first."""
    try:
        shepherd = os.getppid()
        os.setsid()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)  # Python ignores SIGPIPE and SIGXFSZ
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _arrange(output, descriptor, told)
        if folder:
            os.chdir(folder)  # before it gives up its rights: the folders above may be closed to the user
        _set_limits(job.limits, job.user)
        if job.user is not None:
            group = job.user if job.group is None else job.group
            os.setgroups([group])
            os.setgid(group)
            os.setuid(job.user)
        linux.gain_nothing()
        linux.die_with_parent()
        if os.getppid() != shepherd:
            os._exit(1)
        os.umask(_UMASK)
        if path:
            os.execve(path, [path, *job.args], job.environment)
        function = _function(job.call)
    except OSError as error:
        os.write(told, f"{error.errno} {error.strerror}".encode())
        os._exit(127)
    except BaseException as error:
        os.write(told, f"0 {error!r}".encode())
        os._exit(127)
    os.close(told)
    _call(function, job)


def _arrange(output: int, descriptor: int, told: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2), (descriptor, DESCRIPTOR)):
        os.dup2(source, target)  # the launcher keeps all these above the targets
    os.closerange(DESCRIPTOR + 1, told)
    os.closerange(told + 1, os.sysconf("SC_OPEN_MAX"))


def _set_limits(limits: Limits, user: int | None) -> None:
    uid = os.getuid() if user is None else user
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        # The kernel counts all processes of the user together: so many more than there are now.
        resource.RLIMIT_NPROC: limits.processes and limits.processes + linux.tasks_of_user(uid),
    }
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, value in wanted.items():
        if value:
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))
    if limits.nice:
        with suppress(PermissionError):
            os.nice(limits.nice)


def _function(name: str) -> Callable[[], object]:
    module, _, attribute = name.partition(":")
    function: Callable[[], object] = getattr(importlib.import_module(module), attribute)
    return function


def _call(function: Callable[[], object], job: Launch) -> NoReturn:
    """Run a function as if it were the main program; what it returns is the exit code, None for 0."""
    code: object = 1
    try:
        os.environ.clear()
        os.environ.update(job.environment)
        sys.argv = [job.call, *job.args]
        gc.unfreeze()
        code = function()
    except SystemExit as error:
        code = error.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))
