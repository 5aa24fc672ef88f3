"""The examples that commands show in their help, run in a world of their own; and that every command has some."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lcc.admin.help.programs import PROGRAMS, ROLES, commands_of, program
from lcc.commands.examples import EXAMPLES
from tests.support.documents import ROOT

from .__main__ import command
from .host import why_not
from .worlds import BIN

INTERRUPTED = Path(__file__).with_name("interrupted.py")
AS_JOB = Path(__file__).with_name("as_job.py")
_ASK = f"""lcc-admin register ask --site http://www.example.org/new/ --contact me@example.org --json > asked
mkdir -p /var/www/html/new
{sys.executable} -c 'import json; print("{{file}} {{secret}}".format(**json.load(open("asked"))))' > asked.txt
read file secret < asked.txt && echo $secret > /var/www/html/new/$file
"""
_RESTART = """kill $(cat lcc.pid) && while [ -e lcc.pid ]; do sleep 0.1; done
twistd --pidfile=lcc.pid lcc"""
_LCCCP = "lcccp --uns=lcc.example.org:9000 --pid=1 --pwd-file=password --urlprefix=http://www.example.org/"
_HELD = """lcc-admin provider show 1 --json | grep '"deletions_held": 1,'"""
_HOLD = f"""rm -f /var/www/html/gone.html
file2url --find /var/www/html -name '*.html' | {_LCCCP} --full
until {_HELD}; do sleep 0.1; done"""
BEFORE = {
    "lcc-admin provider drop-deletions": f"""echo '[qm]' >> lcc.toml
printf 'mass_deletion_share = 0.1\nmass_deletion_floor = 0\n' >> lcc.toml
{_RESTART}
echo gone > /var/www/html/gone.html
until file2url --find /var/www/html -name gone.html | {_LCCCP}; do sleep 0.1; done
until lcc-admin urls --json | grep gone.html; do sleep 0.1; done
{_HOLD}""",
    "lcc-admin provider allow-deletions": f"while {_HELD}; do sleep 0.1; done\n{_HOLD}",
    "lcc-admin provider remove": "lcc-admin provider add --root http://example.com/",
    "lcc-admin register ask": _ASK,
    "lcc-admin register approve": f"""sed -i 's/^\\[rs\\]/&\\napproval = true/' lcc.toml
{_ASK}lcc-admin register check 3""",
    "lcc-admin fe": """printf 'home = "fe-home"\\n[fe]\\ndatabase = "sqlite:fe.sqlite"\\n' > fe.toml
lcc-admin --config fe.toml fe init""",
    "lcc-admin fe remove": """printf 'home = "two-home"\\n' > two.toml && lcc-admin --config two.toml init
lcc-admin --config fe.toml fe add two --uns tcp:127.0.0.1:9999 --database sqlite:two-home/lcc.db""",
    "lcc-admin move": """printf 'home = "three-home"\\n' > three.toml && lcc-admin --config three.toml init
lcc-admin --config fe.toml fe add three --uns tcp:127.0.0.1:9998 --database sqlite:three-home/lcc.db""",
    "lcc-admin search": f"""printf '[search]\\nlisten = "unix:{{home}}/search.sock"\\n' >> lcc.toml
{_RESTART}
until lcc-admin search wonderful; do sleep 0.1; done""",
    "lcc-admin spider start": "until lcc-admin spider show docs && lcc-admin spider show rest; do sleep 0.1; done",
    "lcc-admin console": f"""ssh-keygen -q -t ed25519 -N '' -f key
cat key.pub > lcc-home/manhole-keys && chmod 600 lcc-home/manhole-keys
eval "$(ssh-agent -s)" && ssh-add key
printf '[manhole]\\nlisten = "unix:{{home}}/console.sock"\\n' >> lcc.toml
{_RESTART}
until lcc-admin console lcc 'est()'; do sleep 0.1; done""",
}
"""What has to be there for the examples of a command."""
FOR_EVER = ("lcc-admin status --watch", *(example for example, _ in EXAMPLES["lccwatch"]))
"""These end with Ctrl-C, also where standard output is no terminal."""


def paths(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in commands_of(command):
            yield from paths(inner, f"{path} {name}")


ALL = {path: each for name in PROGRAMS if name not in ROLES for path, each in paths(program(name), name)}


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == ALL.keys()


def test_help_shows_them() -> None:
    for path, each in ALL.items():
        text = each.get_help(click.Context(each, info_name=path))
        assert "Examples:" in text and EXAMPLES[path][0][1] in text, path
        for line in text.splitlines():
            assert len(line) <= 120, line


@pytest.mark.long
def test_they_run(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    page = tmp_path / "examples.md"
    lines = []
    for path, examples in EXAMPLES.items():
        lines += [BEFORE[path]] if path in BEFORE else []
        for example, _ in examples:
            before = f"{sys.executable} {AS_JOB} " if example.startswith("lcc-job ") else ""
            before = f"{sys.executable} {INTERRUPTED} {BIN}/" if example in FOR_EVER else before
            lines.append(before + example)
    page.write_text("<!-- world an LCC at work -->\n```sh\n" + "\n".join(lines) + "\n```\n")
    done = subprocess.run(command(page, []), cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
