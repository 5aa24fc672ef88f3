"""What the figures were measured with."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from pyexpat import EXPAT_VERSION

from common import peer_python

_PROGRAMS = {
    "MariaDB": (["mariadbd", "--no-defaults", "--version"], r"Ver ([\d.]+)"),
    "nginx": (["nginx", "-v"], r"nginx/([\d.]+)"),
    "curl": (["curl", "--version"], r"curl ([\d.]+)"),
    "tar": (["tar", "--version"], r"\) ([\d.]+)"),
    "sfeed": (["dpkg-query", "--show", "sfeed"], r"\t([\d.]+)"),
}
_PEERS = ("Scrapy", "aiohttp", "reader")


def versions() -> dict[str, str]:
    """By name, in the order in which a reader wants them."""
    found = {"machine": machine(), "system": system(), "Python": platform.python_version()}
    found |= {"Twisted": version("twisted"), "expat": EXPAT_VERSION.removeprefix("expat_")}
    found |= {name: _said(command, pattern) for name, (command, pattern) in _PROGRAMS.items()}
    return found | _peers() | {"commit": commit()}


def machine() -> str:
    """Cores, their kind and the memory."""
    kind = re.search(r"^model name\s*: (.*)$", _text("/proc/cpuinfo"), re.MULTILINE)
    total = re.search(r"^MemTotal:\s+(\d+)", _text("/proc/meminfo"), re.MULTILINE)
    memory = f", {int(total[1]) / (1 << 20):.0f} GiB" if total else ""
    return f"{os.cpu_count()} cores, {kind[1] if kind else platform.machine()}{memory}"


def system() -> str:
    """Distribution and kernel."""
    name = re.search(r'^PRETTY_NAME="?(.*?)"?$', _text("/etc/os-release"), re.MULTILINE)
    return f"{name[1] if name else platform.system()}, Linux {platform.release()}"


def commit() -> str:
    """Of the LCC, with a plus when there is more than what is committed."""
    here = Path(__file__).parent
    name = _said(["git", "-C", str(here), "rev-parse", "--short=10", "HEAD"], r"(\w+)")
    changed = _said(["git", "-C", str(here), "status", "--porcelain", "--untracked-files=no", "."], r"(\S)")
    return name + ("+" if changed != "unknown" else "")


def _peers() -> dict[str, str]:
    """Of the environment that the peers run in; it is made when it is not there yet."""
    code = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    done = subprocess.run([peer_python(), "-c", code, *_PEERS], check=True, capture_output=True, text=True)
    return dict(zip(_PEERS, done.stdout.split(), strict=True))


def _said(command: list[str], pattern: str) -> str:
    path = os.environ["PATH"] + ":/usr/sbin"
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path})
    except OSError:
        return "unknown"
    match = re.search(pattern, done.stdout + done.stderr) if done.returncode == 0 else None
    return match[1] if match else "unknown"


def _text(path: str) -> str:
    return Path(path).read_text()
