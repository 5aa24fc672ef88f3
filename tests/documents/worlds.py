"""What is there before a page's first command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from .host import ADDRESS, HOME
from .shell import Shell

BIN = Path(sys.executable).parent
SITE = Path("/var/www/html")
_WEB_SERVER = f"{sys.executable} -m http.server --bind {ADDRESS} --directory {SITE} 80 >/var/log/web.log 2>&1 &"
_PAGES = {
    "index.html": "All is wonderful",
    "page.html": "A page",
    "docs/index.html": "The manual",
    "docs/page.html": "More of it",
}


def environment(programs: Path) -> dict[str, str]:
    """Of a person who has installed the LCC.

    :param programs: a folder to look into first.
    """
    return {
        "HOME": str(HOME),
        "PATH": f"{programs}:{BIN}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "COLUMNS": "120",
        **{name: value for name, value in os.environ.items() if name in ("TMPDIR",)},
    }


def nothing(shell: Shell) -> None:
    """The LCC is installed; all else is the page's."""


def a_site(shell: Shell) -> None:
    """A web server, ``http://www.example.org/``, with some pages."""
    for name, text in _PAGES.items():
        page = SITE / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<title>{text}</title><p>{text}.</p>\n")
        os.utime(page, (1_700_000_000, 1_700_000_000))
    serve(shell)


def serve(shell: Shell) -> None:
    """Start the web server."""
    done(shell, _WEB_SERVER)
    shell.until(f"curl -s -o /dev/null http://{ADDRESS}/")


def an_lcc(shell: Shell) -> None:
    """An LCC at work in the folder of the page's commands, the site's pages in its cache."""
    a_site(shell)
    done(shell, "mkdir my-lcc && cd my-lcc && lcc-admin init && twistd --pidfile=lcc.pid lcc")
    done(shell, "lcc-admin provider add --root http://www.example.org/ --json >added")
    done(shell, '(umask 077; sed \'s/.*"password": "\\(.*\\)".*/\\1/\' added >password); rm added')
    shell.until(
        f"file2url --find {SITE} -name '*.html' | lcccpstate --statefile=state.txt | lcccp"
        " --uns=lcc.example.org:9000 --pid=1 --pwd-file=password --urlprefix=http://www.example.org/"
    )
    shell.until(f"[ $(lcc-admin urls --json | wc -l) = {len(_PAGES)} ]")


def pages_to_come(shell: Shell) -> None:
    """An LCC that is set up, of which nothing runs yet; who is here has a key for its consoles, and ``publish`` tells
    three pages."""
    SITE.mkdir(parents=True, exist_ok=True)
    names = [f"{letter}.html" for letter in "abc"]
    for name in names:
        (SITE / name).write_text(f"<p>{name}\n")
    serve(shell)
    (HOME / "lcc.toml").write_text('home = "/var/lib/lcc"\n')
    done(shell, "lcc-admin init && lcc-admin provider add --root http://www.example.org/ > added")
    done(shell, "(umask 077; sed -n 's/^password: //p' added >password); rm added")
    (HOME / "publish").write_text(
        "#!/bin/bash\nset -o pipefail\n"
        f"cd {SITE} && file2url {' '.join(names)} | lcccpstate --statefile={HOME}/state.txt |"
        " lcccp --uns=lcc.example.org:9000 --pid=1 --urlprefix=http://www.example.org/"
        f" --pwd-file={HOME}/password\n"
    )
    done(shell, "chmod +x publish; ssh-keygen -q -t ed25519 -N '' -f key")
    done(shell, "(umask 077; cp key.pub /var/lib/lcc/manhole-keys)")
    agent = shell.environment["SSH_AUTH_SOCK"] = "/var/run/agent"
    done(shell, f"export SSH_AUTH_SOCK={agent}; ssh-agent -a {agent} >agent && ssh-add -q key")


def done(shell: Shell, command: str) -> None:
    """Run a command that must succeed."""
    code, shown = shell.run(command)
    assert code == 0, f"{command}\n{shown}"


WORLDS: dict[str, Callable[[Shell], None]] = {
    "": nothing,
    "nothing": nothing,
    "a site": a_site,
    "an LCC at work": an_lcc,
    "pages to come": pages_to_come,
}
