"""Looks for code that a simulation could not run: that reaches for a clock, chance, files or threads by itself.

Roles, and what they use, take all of these from outside (lcc/services/outside.py).  What is allowed all the same
stands in ``ALLOWED``, with its reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("domain", "protocols", "transport", "storage", "fetchers", "users", "roles", "services")

CLOCK, CHANCE, FILES, THREADS = "a clock", "chance", "files (lcc.storage.disk.Disk)", "threads (Outside.in_thread)"
REACTOR = "the reactor"
FORBIDDEN = {
    "time.time": CLOCK,
    "time.monotonic": CLOCK,
    "time.perf_counter": CLOCK,
    "time.sleep": CLOCK,
    "datetime.now": CLOCK,
    "datetime.utcnow": CLOCK,
    "datetime.today": CLOCK,
    "datetime.datetime.now": CLOCK,
    "date.today": CLOCK,
    "random.*": CHANCE,
    "secrets.*": CHANCE,
    "uuid.uuid*": CHANCE,
    "os.urandom": CHANCE,
    "open": FILES,
    "os.open": FILES,
    "os.rename": FILES,
    "os.replace": FILES,
    "os.unlink": FILES,
    "os.remove": FILES,
    "os.mkdir": FILES,
    "os.makedirs": FILES,
    "os.fsync": FILES,
    "os.listdir": FILES,
    "os.scandir": FILES,
    "os.statvfs": FILES,
    "shutil.*": FILES,
    "tempfile.*": FILES,
    "*.read_text": FILES,
    "*.read_bytes": FILES,
    "*.write_text": FILES,
    "*.write_bytes": FILES,
    "*.unlink": FILES,
    "*.mkdir": FILES,
    "*.iterdir": FILES,
    "threading.Thread": THREADS,
    "deferToThread": THREADS,
    "*.callInThread": THREADS,
    "cooperate": REACTOR,
    "task.cooperate": REACTOR,
}
"""What is called -> what it reaches for."""

ALLOWED = {
    "lcc/services/outside.py": ("*", "this is where they come from"),
    "lcc/storage/disk.py": ("*", "the real disk"),
    "lcc/storage/database.py": ("*.mkdir time.sleep random.getrandbits", "the real database; its random is given"),
    "lcc/storage/migrations.py": ("*.iterdir *.read_text", "reads what comes with the program"),
    "lcc/storage/passwords.py": ("secrets.*", "salts: what is stored differs, what is decided does not"),
    "lcc/storage/synced.py": ("*.read_text", "asks the kernel for the boot's id; Outside.boot_id is it"),
    "lcc/storage/content_check.py": ("os.listdir *.read_text", "for lcc-admin fsck, not for a role"),
    "lcc/transport/links.py": ("*.unlink *.mkdir", "sockets and the real lock (Outside.lock)"),
    "lcc/transport/certificates.py": ("*.read_bytes", "keys and certificates; TLS is not simulated"),
    "lcc/fetchers/tls.py": ("*.read_bytes", "certificates; TLS is not simulated"),
    "lcc/fetchers/file.py": ("os.open", "fetches file: URLs, which are real files by definition"),
    "lcc/users/packages/bodies.py": ("os.open tempfile.*", "packages are made in threads of their own"),
    "lcc/users/packages/warc.py": ("tempfile.*", "packages are made in threads of their own"),
}
"""File -> patterns of what it may call, and why."""


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that is called, and of every import of the global reactor."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node.func)
        elif isinstance(node, ast.ImportFrom) and node.module == "twisted.internet":
            for alias in node.names:
                if alias.name == "reactor":
                    yield node.lineno, "twisted.internet.reactor"


def faults() -> Iterator[str]:
    """What is wrong, in the order of the files."""
    used: set[str] = set()
    for room in ROOMS:
        for path in sorted((ROOT / "lcc" / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            patterns = ALLOWED.get(name, ("", ""))[0].split()
            for line, called in calls(ast.parse(path.read_text(encoding="utf-8"))):
                reached = REACTOR if called == "twisted.internet.reactor" else forbidden(called)
                if not reached:
                    continue
                if any(fnmatch(called, pattern) for pattern in patterns):
                    used.add(name)
                else:
                    yield f"{name}:{line}: {called} reaches for {reached}: take it from outside"
    for name in sorted(set(ALLOWED) - used):
        yield f"{name}: needs no exception any longer"


def forbidden(called: str) -> str:
    """What this call reaches for; empty: nothing."""
    for pattern, reached in FORBIDDEN.items():
        if fnmatch(called, pattern) and called != "random.Random":
            return reached
    return ""


def main() -> int:
    """Gives the exit code."""
    found = list(faults())
    for fault in found:
        print(fault)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
