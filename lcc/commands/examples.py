"""Examples for the help of every command; each is run by ``tests/documents/test_examples.py``, in this order.

They stand behind the help of their command and in its manual page.  Their world: an LCC in the current folder, all
roles in one process, with provider 1, whose site http://www.example.org/ is in /var/www/html and in the cache, and
whose password is in the file ``password``.
"""

from __future__ import annotations

import click
from attrs import frozen

_TELL = (
    "file2url --find /var/www/html -name '*.html' | lcccpstate --statefile=state.txt |"
    " lcccp --uns=lcc.example.org:9000 --pid=1 --pwd-file=password --urlprefix=http://www.example.org/"
)

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "lcc-admin": (
        ("lcc-admin check", "is the configuration all right?"),
        ("lcc-admin status", "how does all of it stand?"),
        ("lcc-admin why http://www.example.org/index.html", "where does this page stand?"),
    ),
    "lcc-admin init": (("lcc-admin init", "make what is not there yet"),),
    "lcc-admin check": (("lcc-admin check", "every fault at once; exit code 1 if there is one"),),
    "lcc-admin config": (
        ("lcc-admin config --defaults", "every setting, with its meaning"),
        ("lcc-admin config --sample lcc.service > lcc.service", "a unit for systemd"),
    ),
    "lcc-admin completion": (
        ('eval "$(lcc-admin completion bash)"', "in ~/.bashrc"),
        ("lcc-admin completion fish > lcc.fish", "for ~/.config/fish/conf.d"),
    ),
    "lcc-admin manual": (("lcc-admin manual man1", "then: man --local-file man1/lcc-admin.1"),),
    "lcc-admin certificates": (("lcc-admin certificates init", "once; then give out certificates"),),
    "lcc-admin certificates init": (("lcc-admin certificates init --folder authority", "in another folder"),),
    "lcc-admin certificates add": (
        ("lcc-admin certificates add 10.0.0.2 botm bot admin", "for a machine that fetches"),
        ("lcc-admin certificates add lcc.example.org public --also 10.0.0.1", "for the port of the providers"),
    ),
    "lcc-admin certificates show": (
        ("lcc-admin certificates show", "which there are, and until when"),
        ("lcc-admin certificates show --within 30", "from cron: exit code 1 if one expires soon"),
    ),
    "lcc-admin certificates renew": (("lcc-admin certificates renew --all", "all of them, now"),),
    "lcc-admin certificates revoke": (("lcc-admin certificates revoke 10.0.0.2 bot", "its key is in wrong hands"),),
    "lcc-admin provider": (("lcc-admin provider list", "who is registered"),),
    "lcc-admin provider add": (
        ("lcc-admin provider add --root http://cache.example.org/", "prints its id and, once, its password"),
        ("lcc-admin provider add --root http://site/ --hours 22-6 --bandwidth 100000", "at night, and slowly"),
    ),
    "lcc-admin provider list": (("lcc-admin provider list --json", "one object a line, for programs"),),
    "lcc-admin provider show": (("lcc-admin provider show 1", "limits, quotas, delays, errors"),),
    "lcc-admin provider set": (
        ("lcc-admin provider set 1 --priority 2", "before all others"),
        ("lcc-admin provider set 1 --bandwidth none", "take a limit away"),
        ("lcc-admin provider set 2 --new-password", "the old one is lost"),
    ),
    "lcc-admin provider delete-outside": (("lcc-admin provider delete-outside 1", "a root was taken away"),),
    "lcc-admin provider remove": (("lcc-admin provider remove 3", "with its queue and its content"),),
    "lcc-admin provider want-full-set": (("lcc-admin provider want-full-set 1", "ask it for everything it has"),),
    "lcc-admin provider drop-deletions": (("lcc-admin provider drop-deletions 1", "the full set was a mistake"),),
    "lcc-admin provider allow-deletions": (("lcc-admin provider allow-deletions 1", "the pages are gone indeed"),),
    "lcc-admin register": (("lcc-admin register list", "what is under way"),),
    "lcc-admin register ask": (
        ("lcc-admin register ask --site http://www.example.org/new/ --contact me@example.org", "as a newcomer would"),
    ),
    "lcc-admin register check": (("lcc-admin register check 1", "fetch the secret from the site, now"),),
    "lcc-admin register approve": (("lcc-admin register approve 3", "it was proven, and may be a provider"),),
    "lcc-admin register remove": (("lcc-admin register remove 2", "forget it"),),
    "lcc-admin register list": (("lcc-admin register list --json", "for programs"),),
    "lcc-admin user": (("lcc-admin user list", "who may read the cache from elsewhere"),),
    "lcc-admin user add": (
        ('lcc-admin user add "search engine"', "prints its token, once"),
        ("lcc-admin user add partner --provider 1 --rows-only", "only this provider's rows"),
    ),
    "lcc-admin user list": (("lcc-admin user list", "ids and names; tokens are stored nowhere"),),
    "lcc-admin user remove": (("lcc-admin user remove 2", "its token is good for nothing from now on"),),
    "lcc-admin web-user": (("lcc-admin web-user list", "who may log in at the web monitor"),),
    "lcc-admin web-user add": (
        ("lcc-admin web-user add anne", "prints a password, once"),
        ("lcc-admin web-user add bob --operate", "who may also have things done"),
    ),
    "lcc-admin web-user list": (("lcc-admin web-user list --json", "for programs"),),
    "lcc-admin web-user remove": (("lcc-admin web-user remove bob", "and log him out"),),
    "lcc-admin urls": (
        ("lcc-admin urls --provider 1 --limit 20", "the first rows of a provider"),
        ("lcc-admin urls --mimetype 'text/*' --prefix http://www.example.org/docs/ --json", "a selection"),
        ("lcc-admin urls --since 0 | tail -n 1", "a token, for the changes from now on"),
    ),
    "lcc-admin show": (
        ("lcc-admin show http://www.example.org/index.html", "the row, and the content"),
        ("lcc-admin show --output page.html http://www.example.org/index.html", "the content into a file"),
    ),
    "lcc-admin queue": (
        ("lcc-admin queue", "the sets that wait"),
        ("lcc-admin queue --urls --provider 1", "the URLs of one provider that wait"),
    ),
    "lcc-admin status": (
        ("lcc-admin status", "one screen of everything"),
        ("lcc-admin status --watch", "again and again, until Ctrl-C"),
        ("lcc-admin status --json", "for programs"),
    ),
    "lcc-admin top": (
        ("lcc-admin top", "what is being fetched, again and again, until Ctrl-C"),
        ("lcc-admin top --once --json", "once, for programs"),
    ),
    "lcc-admin why": (
        ("lcc-admin why http://www.example.org/index.html", "what it waits for, or since when it is cached"),
        ("lcc-admin why --provider 1 --json http://www.example.org/docs/", "for programs"),
    ),
    "lcc-admin explain": (
        ("lcc-admin explain 1408", "what an error means, and what to do"),
        ("lcc-admin explain dns-failed", "by its name"),
    ),
    "lcc-admin errors": (
        ("lcc-admin errors --provider 1", "what could not be fetched from this provider"),
        ("lcc-admin errors --code 404", "what is gone"),
    ),
    "lcc-admin fetch": (
        ("lcc-admin fetch http://www.example.org/", "as a robot would, and tell everything"),
        ("lcc-admin fetch --provider 1 --output page.html http://www.example.org/docs/", "and keep it"),
    ),
    "lcc-admin retry": (
        ("lcc-admin retry --provider 1", "its site is back: go on at once"),
        ("lcc-admin retry --code 503", "what failed with this code"),
    ),
    "lcc-admin rebuild": (("lcc-admin rebuild", "the table of sets from the queue"),),
    "lcc-admin fsck": (
        ("lcc-admin fsck", "does the content folder agree with the database?"),
        ("lcc-admin fsck --quick", "without reading the files"),
        ("lcc-admin fsck --repair", "have what is lost fetched again"),
    ),
    "lcc-admin console": (("lcc-admin console lcc 'est()'", "what goes on in all roles"),),
    "lcc-admin console-password": (("lcc-admin console-password me", "prints one, once"),),
    "lcc-export": (("lcc-export tar.gz --output pages.tar.gz", "all there is, as one file"),),
    "lcc-export tar": (("lcc-export tar --provider 1 --output pages.tar", "what one provider has told"),),
    "lcc-export tar.gz": (
        ("lcc-export tar.gz --mimetype text/html --output - | tar -tz", "look what would be in it"),
    ),
    "lcc-export warc": (("lcc-export warc --output pages.warc.gz", "and its index, pages.cdxj"),),
    "lcc-export swish-e": (("lcc-export swish-e --output pages.swish", "all there is, as swish-e reads it"),),
    "lcc-export swish++": (("lcc-export swish++ --since s.state --mirror pages", "keep a folder of pages"),),
    "lcc-export htdig": (("lcc-export htdig -- cat", "show the URLs that ht://Dig would be given"),),
    "lcc-export omega": (("lcc-export omega --output records", "all there is, as scriptindex reads it"),),
    "lcc-export ndjson": (
        ("lcc-export ndjson --since n.state --output actions.json", "what has changed since the last time"),
    ),
    "lcc-export mirror-urls": (
        ("find pages -name '*.html' | lcc-export mirror-urls pages", "what pages of a mirror are"),
    ),
    "file2url": (
        ("file2url --find /var/www/html -name '*.html'", "tell all pages"),
        ("file2url --docroot /var/www/html docs/page.html", "tell one of them"),
        ("ls /var/www/html | file2url --docroot /var/www/html", "tell those on standard input"),
    ),
    "lcccpstate": ((_TELL, "publish what has changed"),),
    "lcccp": (
        (_TELL, "publish what has changed"),
        ("lcccp --check --uns=lcc.example.org:9000 --pid=1 --pwd-file=password", "what the LCC thinks of you"),
    ),
}


@frozen
class Example:
    """
    :ivar meaning: in a few words.
    """

    command: str
    meaning: str


def examples_of(path: str) -> list[Example]:
    """Those of a command.

    :param path: the words that call it, such as ``lcc-admin provider add``.
    """
    return [Example(*each) for each in EXAMPLES.get(path, ())]


def put_into_help(command: click.Command, path: str) -> None:
    """Have a command, and those in it, show their examples behind their help."""
    lines = [f"  # {example.meaning}\n  {wrapped(example.command)}" for example in examples_of(path)]
    if lines:
        before = f"{command.epilog}\n\n" if command.epilog else ""
        command.epilog = f"{before}\b\nExamples:\n" + "\n".join(lines)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            put_into_help(inner, f"{path} {name}")


def wrapped(command: str) -> str:
    """A pipeline on several lines."""
    return command.replace(" | ", " |\n      ")
