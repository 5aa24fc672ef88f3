"""Looks for code that a simulation could not run: that reaches for a clock, chance, files or threads by itself.

Roles, and what they use, take all of these from outside (lcc/services/process/environment.py).  What is allowed all
the same stands in ``ALLOWED``, with its reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("domain", "protocols", "transport", "storage", "fetchers"),
    *("client", "insight", "roles", "services", "console", "metrics"),
)

CLOCK, CHANCE, FILES, THREADS = (
    "a clock",
    "chance",
    "files (lcc.storage.disk.file_system.Disk)",
    "threads (Environment.in_thread)",
)
REACTOR = "the reactor"
FORBIDDEN = {
    "time.time": CLOCK,
    "time.monotonic": CLOCK,
    "time.perf_counter": CLOCK,
    "time.sleep": CLOCK,
    "time.*_ns": CLOCK,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "random.*": CHANCE,
    "secrets.*": CHANCE,
    "uuid.uuid*": CHANCE,
    "os.urandom": CHANCE,
    "open": FILES,
    "io.open": FILES,
    "os.open": FILES,
    "os.stat": FILES,
    "os.path.exists": FILES,
    "os.path.is*": FILES,
    "os.path.get*": FILES,
    "os.walk": FILES,
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
    "*.is_file": FILES,
    "*.is_dir": FILES,
    "*.touch": FILES,
    "*.glob": FILES,
    "threading.Thread": THREADS,
    "twisted.internet.threads.deferToThread": THREADS,
    "*.callInThread": THREADS,
    "twisted.internet.task.cooperate": REACTOR,
    "twisted.internet.reactor": REACTOR,
}
"""What is used, or (with an asterisk: of whatever object) called -> what it reaches for.  Names are full ones: what
was imported under another name is found, and what is passed on to be called later, too."""

ALLOWED = {
    "lcc/services/process/environment.py": ("*", "this is where they come from"),
    "lcc/storage/disk/file_system.py": ("*", "the real disk"),
    "lcc/protocols/cdxj.py": ("tempfile.*", "indexes are made by lcc-export, and in threads"),
    "lcc/protocols/warc.py": ("tempfile.*", "records are made in threads of their own"),
    "lcc/storage/database/database.py": (
        "*.mkdir time.sleep random.getrandbits",
        "the real database; its random is given",
    ),
    "lcc/storage/database/dialects.py": (
        "secrets.randbits time.monotonic",
        "a salt for ids; how long a real question takes",
    ),
    "lcc/storage/database/retry.py": ("time.monotonic", "how often the log tells of the real database"),
    "lcc/storage/database/migrations.py": ("*.iterdir *.read_text", "reads what comes with the program"),
    "lcc/storage/providers/passwords.py": ("secrets.*", "salts: what is stored differs, what is decided does not"),
    "lcc/storage/disk/content_sync.py": (
        "*.read_text",
        "asks the kernel for the boot's id; Environment.boot_id is it",
    ),
    "lcc/storage/disk/content_scan.py": ("os.listdir *.is_dir *.read_text", "for lcc-admin fsck, not for a role"),
    "lcc/transport/links.py": ("*.unlink *.mkdir", "sockets and the real lock (Environment.lock)"),
    "lcc/transport/tls/certificates.py": ("*.read_bytes time.time", "keys and certificates; TLS is not simulated"),
    "lcc/fetchers/names.py": ("threading.Thread", "asks the system's resolver; the reactor's own in a simulation"),
    "lcc/fetchers/tls.py": ("*.read_bytes", "certificates; TLS is not simulated"),
    "lcc/fetchers/file.py": ("os.open os.scandir *.is_dir", "fetches file: URLs, which are real files by definition"),
    "lcc/roles/manager/remains.py": ("os.open", "the lock that real processes inherit"),
    "lcc/services/manager.py": ("tempfile.* *.is_dir", "where real processes have their files"),
    "lcc/roles/cu/packages/bodies.py": ("os.open tempfile.*", "packages are made in threads of their own"),
    "lcc/console/credentials.py": ("open os.open", "who may log in at the console, which is not simulated"),
    "lcc/console/hostkey.py": ("*", "the console's key; it is not simulated"),
}
"""File -> patterns of what it may call, and why."""


def uses(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Of all that is named: line, full name as the imports have it, and whether it is called."""
    imported: dict[str, str] = {}
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, name, False
        elif isinstance(node, ast.Call):
            called.add(node.func)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            first, dot, rest = ast.unparse(node).partition(".")
            yield node.lineno, imported.get(first, first) + dot + rest, node in called


def reaches(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, what is used there, what it reaches for."""
    for line, name, is_called in uses(ast.parse(source)):
        if reached := forbidden(name, is_called):
            yield line, name, reached


def faults() -> Iterator[str]:
    """What is wrong, in the order of the files."""
    used: set[str] = set()
    for room in ROOMS:
        for path in sorted((ROOT / "lcc" / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            patterns = ALLOWED.get(name, ("", ""))[0].split()
            for line, what, reached in reaches(path.read_text(encoding="utf-8")):
                if any(fnmatch(what, pattern) for pattern in patterns):
                    used.add(name)
                else:
                    yield f"{name}:{line}: {what} reaches for {reached}: take it from outside"
    for name in sorted(set(ALLOWED) - used):
        yield f"{name}: needs no exception any longer"


def forbidden(name: str, is_called: bool) -> str:
    """What this reaches for; empty: nothing."""
    for pattern, reached in FORBIDDEN.items():
        if fnmatch(name, pattern) and name != "random.Random" and (is_called or not pattern.startswith("*")):
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
