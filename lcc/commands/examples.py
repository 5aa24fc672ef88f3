"""Examples for the help of every command; each is run by ``tests/documents/test_examples.py``, in this order.

They stand behind the help of their command and in its manual page.  Their world: an LCC in the current folder, all
roles in one process, with provider 1, whose site http://www.example.org/ is in /var/www/html and in the cache, and
whose password is in the file ``password``.
"""

from __future__ import annotations

import click
from attrs import frozen

LINE_CHARS = 110
"""Of a command in a help text."""
_TELL = (
    "file2url --find /var/www/html -name '*.html' | lcccpstate --statefile=state.txt |"
    " lcccp --uns=lcc.example.org:9000 --pid=1 --pwd-file=password --urlprefix=http://www.example.org/"
)

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "lcc-admin": (
        ("lcc-admin check", "validate the configuration"),
        ("lcc-admin status", "show the state of everything"),
        ("lcc-admin why http://www.example.org/index.html", "explain the state of a page"),
    ),
    "lcc-admin init": (("lcc-admin init", "create what does not exist yet"),),
    "lcc-admin check": (("lcc-admin check", "report all errors; exit code 1 if there are any"),),
    "lcc-admin config": (
        ("lcc-admin config --defaults", "all settings, explained"),
        ("lcc-admin config --sample lcc.service > lcc.service", "a unit for systemd"),
    ),
    "lcc-admin completion": (
        ('eval "$(lcc-admin completion bash)"', "in ~/.bashrc"),
        ("lcc-admin completion fish > lcc.fish", "for ~/.config/fish/conf.d"),
    ),
    "lcc-admin manual": (("lcc-admin manual man1", "then: man --local-file man1/lcc-admin.1"),),
    "lcc-admin certificates": (("lcc-admin certificates init", "once; then issue certificates"),),
    "lcc-admin certificates init": (("lcc-admin certificates init --folder authority", "in another folder"),),
    "lcc-admin certificates add": (
        ("lcc-admin certificates add 10.0.0.2 botm bot admin", "for a machine with robots"),
        ("lcc-admin certificates add lcc.example.org public --also 10.0.0.1", "for the providers' port"),
    ),
    "lcc-admin certificates show": (
        ("lcc-admin certificates show", "list them with expiry dates"),
        ("lcc-admin certificates show --within 30", "from cron: exit code 1 if one expires soon"),
    ),
    "lcc-admin certificates renew": (("lcc-admin certificates renew --all", "all of them, now"),),
    "lcc-admin certificates revoke": (("lcc-admin certificates revoke 10.0.0.2 bot", "its key was compromised"),),
    "lcc-admin provider": (("lcc-admin provider list", "list all providers"),),
    "lcc-admin provider add": (
        ("lcc-admin provider add --root http://cache.example.org/", "prints its id and, once, its password"),
        (
            "lcc-admin provider add --root http://site/ --hours 22-6 --bandwidth 100000",
            "fetched at night, with limited bandwidth",
        ),
    ),
    "lcc-admin provider list": (("lcc-admin provider list --json", "one object per line, for programs"),),
    "lcc-admin provider show": (("lcc-admin provider show 1", "limits, quotas, delays, errors"),),
    "lcc-admin provider set": (
        ("lcc-admin provider set 1 --priority 2", "fetch from it first"),
        ("lcc-admin provider set 1 --bandwidth none", "remove a limit"),
        ("lcc-admin provider set 2 --new-password", "replace a lost password"),
    ),
    "lcc-admin provider delete-outside": (("lcc-admin provider delete-outside 1", "after removing a root"),),
    "lcc-admin provider remove": (("lcc-admin provider remove 3", "with its queue and content"),),
    "lcc-admin provider want-full-set": (("lcc-admin provider want-full-set 1", "ask it for its whole site"),),
    "lcc-admin provider drop-deletions": (("lcc-admin provider drop-deletions 1", "the full set was a mistake"),),
    "lcc-admin provider allow-deletions": (
        ("lcc-admin provider allow-deletions 1", "apply held deletions: the pages are really gone"),
    ),
    "lcc-admin register": (("lcc-admin register list", "list registrations in progress"),),
    "lcc-admin register ask": (
        (
            "lcc-admin register ask --site http://www.example.org/new/ --contact me@example.org",
            "as a site owner would",
        ),
    ),
    "lcc-admin register check": (("lcc-admin register check 1", "fetch the secret from the site"),),
    "lcc-admin register approve": (("lcc-admin register approve 3", "accept a proven site as a provider"),),
    "lcc-admin register remove": (("lcc-admin register remove 2", "reject or remove it"),),
    "lcc-admin register list": (("lcc-admin register list --json", "for programs"),),
    "lcc-admin user": (("lcc-admin user list", "list content users"),),
    "lcc-admin user add": (
        ('lcc-admin user add "search engine"', "print its token, once"),
        ("lcc-admin user add partner --provider 1 --rows-only", "only this provider's rows"),
    ),
    "lcc-admin user list": (("lcc-admin user list", "ids and names"),),
    "lcc-admin user remove": (("lcc-admin user remove 2", "its token becomes invalid"),),
    "lcc-admin web-user": (("lcc-admin web-user list", "list users of the web monitor"),),
    "lcc-admin web-user add": (
        ("lcc-admin web-user add anne", "print a new password"),
        ("lcc-admin web-user add bob --operate", "may also operate, such as retry"),
    ),
    "lcc-admin web-user list": (("lcc-admin web-user list --json", "for programs"),),
    "lcc-admin web-user remove": (("lcc-admin web-user remove bob", "and end his logins"),),
    "lcc-admin feed": (("lcc-admin feed list", "list all feeds"),),
    "lcc-admin feed add": (
        ("lcc-admin feed add http://www.example.org/feed.xml", "its period follows from what polls find"),
        (
            "lcc-admin feed add http://www.example.org/news.xml --every 3600 --full-content --links anywhere",
            "hourly, with the pages of its items",
        ),
    ),
    "lcc-admin feed discover": (
        ("lcc-admin feed discover http://www.example.org/ --allow-private", "the feeds that a page names"),
    ),
    "lcc-admin feed list": (("lcc-admin feed list --json", "for programs"),),
    "lcc-admin feed export": (("lcc-admin feed export --output feeds.opml", "for other feed readers"),),
    "lcc-admin feed import": (("lcc-admin feed import feeds.opml", "from another feed reader"),),
    "lcc-admin feed show": (("lcc-admin feed show 1", "the feed, and its newest items"),),
    "lcc-admin feed why": (("lcc-admin feed why http://www.example.org/feed.xml", "the result of its last poll"),),
    "lcc-admin feed set": (
        ("lcc-admin feed set 1 --every 600", "every ten minutes"),
        ("lcc-admin feed set 1 --auto --full-content", "at a period that adapts to its news"),
    ),
    "lcc-admin feed poll": (("lcc-admin feed poll 1", "poll it now"),),
    "lcc-admin feed suspend": (("lcc-admin feed suspend 1", "stop reading it"),),
    "lcc-admin feed resume": (("lcc-admin feed resume 1", "resume reading it"),),
    "lcc-admin feed remove": (("lcc-admin feed remove 2", "its items are forgotten after a time"),),
    "lcc-admin spider": (("lcc-admin spider list", "list all crawls"),),
    "lcc-admin spider add": (
        (
            "lcc-admin spider add docs --start http://www.example.org/ --restrict-to 'https?://www\\.example\\.org/'",
            "a whole site",
        ),
        ("lcc-admin spider add rest --provider 1 --depth 5", "pages that a provider has not submitted, but links to"),
    ),
    "lcc-admin spider start": (
        ("lcc-admin spider start docs http://www.example.org/map.html", "an additional start page"),
    ),
    "lcc-admin spider set": (("lcc-admin spider set docs --urls 100000 --revisit 86400", "visit pages again"),),
    "lcc-admin spider list": (("lcc-admin spider list --json", "for programs"),),
    "lcc-admin spider show": (("lcc-admin spider show docs", "its rules and its progress"),),
    "lcc-admin spider status": (("lcc-admin spider status", "spiders, crawls, and their hosts"),),
    "lcc-admin spider why": (
        (
            "lcc-admin spider why http://www.example.org/page.html",
            "whether it was found, fetched, or dropped by a filter",
        ),
    ),
    "lcc-admin spider exclude": (("lcc-admin spider exclude docs old.example.org", "follow no links to this host"),),
    "lcc-admin spider include": (("lcc-admin spider include docs old.example.org", "follow them again"),),
    "lcc-admin spider pause": (("lcc-admin spider pause docs", "suspend it"),),
    "lcc-admin spider resume": (("lcc-admin spider resume docs", "go on"),),
    "lcc-admin spider run": (("lcc-admin spider run docs", "resume it, and show its progress"),),
    "lcc-admin spider remove": (("lcc-admin spider remove rest", "cached pages stay"),),
    "lcc-admin search": (("lcc-admin search wonderful site:example.org", "pages with a word, of one site"),),
    "lcc-admin search find": (("lcc-admin search --json --order date wonderful", "for programs, newest first"),),
    "lcc-admin search rebuild": (("lcc-admin search rebuild", "delete the index and rebuild it"),),
    "lcc-admin push": (("lcc-admin push list", "sites that push their changes"),),
    "lcc-admin push list": (("lcc-admin push list --state approval", "sites awaiting approval"),),
    "lcc-admin push hubs": (("lcc-admin push hubs --state dropped", "hubs that do not push"),),
    "lcc-admin push subscribers": (("lcc-admin push subscribers --failing", "subscribers whose deliveries fail"),),
    "lcc-admin push approve": (("lcc-admin push approve www.example.com", "let it become a watched provider"),),
    "lcc-admin push refuse": (("lcc-admin push refuse www.example.com", "accept nothing from it"),),
    "lcc-admin task": (("lcc-admin task list", "list all tasks"),),
    "lcc-admin task add": (
        ("lcc-admin task add --every 3600 -- fetch-weather --city Amsterdam", "hourly"),
        ("lcc-admin task add --at 06:30 --timezone Europe/Amsterdam -- nightly-report", "every day"),
        (
            "lcc-admin task add --cron '*/15 8-18 * * mon-fri' --resource tracker -- check-tracker",
            "in office hours, one job at a time",
        ),
    ),
    "lcc-admin task list": (
        ("lcc-admin task list --failing", "whose last job failed"),
        ("lcc-admin task list --json", "for programs"),
    ),
    "lcc-admin task show": (("lcc-admin task show 3", "when it is due, and its latest jobs"),),
    "lcc-admin task set": (
        ("lcc-admin task set 3 --every 600", "every ten minutes"),
        ("lcc-admin task set 3 --on 'deny:db*'", "not on these hosts"),
    ),
    "lcc-admin task suspend": (("lcc-admin task suspend 3", "suspend it: no more jobs"),),
    "lcc-admin task resume": (("lcc-admin task resume 3", "resume it"),),
    "lcc-admin task remove": (("lcc-admin task remove 5", "also ends its running jobs"),),
    "lcc-admin sitemap": (("lcc-admin sitemap list", "list all sitemaps"),),
    "lcc-admin sitemap add": (
        ("lcc-admin sitemap add http://www.example.org/sitemap.xml --every 3600", "read it once an hour"),
        ("lcc-admin sitemap add --site http://www.example.org/", "those that its robots.txt names"),
    ),
    "lcc-admin sitemap list": (("lcc-admin sitemap list --json", "for programs"),),
    "lcc-admin sitemap show": (
        ("lcc-admin sitemap show http://www.example.org/sitemap.xml", "with the number of URLs listed"),
    ),
    "lcc-admin sitemap why": (
        ("lcc-admin sitemap why http://www.example.org/sitemap.xml", "its state, and deletions held"),
    ),
    "lcc-admin sitemap set": (
        ("lcc-admin sitemap set http://www.example.org/sitemap.xml --every 86400", "read it once a day"),
    ),
    "lcc-admin sitemap confirm": (
        ("lcc-admin sitemap confirm http://www.example.org/sitemap.xml", "delete pages that it no longer lists"),
    ),
    "lcc-admin sitemap poll": (("lcc-admin sitemap poll http://www.example.org/sitemap.xml", "poll it now"),),
    "lcc-admin sitemap suspend": (
        ("lcc-admin sitemap suspend http://www.example.org/sitemap.xml", "stop reading it; its pages stay"),
    ),
    "lcc-admin sitemap resume": (
        ("lcc-admin sitemap resume http://www.example.org/sitemap.xml", "resume reading it"),
    ),
    "lcc-admin sitemap remove": (
        ("lcc-admin sitemap remove http://www.example.org/sitemap.xml", "delete pages that no other source lists"),
    ),
    "lcc-admin resync": (("lcc-admin resync add http://data.example.org/", "what a site publishes"),),
    "lcc-admin resync add": (
        ("lcc-admin resync add http://www.example.org/ --every 3600", "read its lists once an hour"),
        ("lcc-admin resync add http://www.example.org/capabilitylist.xml", "one of several that a site has"),
    ),
    "lcc-admin job": (("lcc-admin job list", "the latest jobs"),),
    "lcc-admin job add": (("lcc-admin job add --after 3600 -- fetch-weather --city Delft", "once, in an hour"),),
    "lcc-admin job list": (
        ("lcc-admin job list --state running", "running jobs"),
        ("lcc-admin job list --state temporary-error --state lost --json", "jobs that failed or will be retried"),
    ),
    "lcc-admin job show": (("lcc-admin job show 1", "its log, and the end of its output"),),
    "lcc-admin job kill": (("lcc-admin job kill 2 --why 'wrong city'", "end it, without a retry"),),
    "lcc-admin job rerun": (("lcc-admin job rerun 2", "repeat it"),),
    "lcc-admin job statistics": (("lcc-admin job statistics --days 30", "jobs by day and kind"),),
    "lcc-admin resource": (("lcc-admin resource list", "those with an interval"),),
    "lcc-admin resource add": (("lcc-admin resource add tracker --interval 10", "ten seconds between two jobs"),),
    "lcc-admin resource list": (("lcc-admin resource list --json", "for programs"),),
    "lcc-admin resource set": (("lcc-admin resource set tracker --interval 60", "a minute"),),
    "lcc-admin resource remove": (("lcc-admin resource remove tracker", "still one job at a time"),),
    "lcc-admin fe": (("lcc-admin --config fe.toml fe list", "list all sub-LCCs"),),
    "lcc-admin fe init": (("lcc-admin --config fe.toml fe init", "create the front end's tables"),),
    "lcc-admin fe add": (
        (
            "lcc-admin --config fe.toml fe add one --uns tcp:127.0.0.1:9000 --database sqlite:lcc-home/lcc.db",
            "an LCC in use",
        ),
    ),
    "lcc-admin fe set": (("lcc-admin --config fe.toml fe set one --files-max 50000000", "its capacity"),),
    "lcc-admin fe list": (("lcc-admin --config fe.toml fe list --json", "for programs"),),
    "lcc-admin fe show": (("lcc-admin --config fe.toml fe show one", "how it is reached, and its last report"),),
    "lcc-admin fe where": (("lcc-admin --config fe.toml fe where 1", "the sub-LCC of a provider"),),
    "lcc-admin fe drain": (("lcc-admin --config fe.toml fe drain one", "no new providers there"),),
    "lcc-admin fe repair": (
        ("lcc-admin --config fe.toml fe repair", "show what it would repair, after a restore"),
        ("lcc-admin --config fe.toml fe repair --apply", "repair it"),
    ),
    "lcc-admin fe remove": (("lcc-admin --config fe.toml fe remove two", "once it has no providers"),),
    "lcc-admin move": (
        ("lcc-admin --config fe.toml move 1 --to three", "while it publishes"),
        ("lcc-admin --config fe.toml move 1 --cancel", "cancel its move"),
    ),
    "lcc-admin moves": (("lcc-admin --config fe.toml moves --all", "include those that are done"),),
    "lcc-admin split": (
        ("lcc-admin --config fe.toml split one --to three --share 0.3", "about a third of its files"),
    ),
    "lcc-admin urls": (
        ("lcc-admin urls --provider 1 --limit 20", "the first rows of a provider"),
        ("lcc-admin urls --mimetype 'text/*' --prefix http://www.example.org/docs/ --json", "a selection"),
        ("lcc-admin urls --since 0 | tail -n 1", "get a token for later changes"),
    ),
    "lcc-admin show": (
        ("lcc-admin show http://www.example.org/index.html", "the row, and the content"),
        ("lcc-admin show --output page.html http://www.example.org/index.html", "the content into a file"),
    ),
    "lcc-admin queue": (
        ("lcc-admin queue", "queued sets"),
        ("lcc-admin queue --urls --provider 1", "queued URLs of one provider"),
    ),
    "lcc-admin status": (
        ("lcc-admin status", "everything on one screen"),
        ("lcc-admin status --watch", "refresh until Ctrl-C"),
        ("lcc-admin status --json", "for programs"),
    ),
    "lcc-admin top": (
        ("lcc-admin top", "refresh until Ctrl-C"),
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
        ("lcc-admin errors --provider 1", "final errors of one provider"),
        ("lcc-admin errors --code 404", "pages that are gone"),
    ),
    "lcc-admin fetch": (
        ("lcc-admin fetch http://www.example.org/", "as a robot would, showing every step"),
        ("lcc-admin fetch --provider 1 --output page.html http://www.example.org/docs/", "save the content"),
    ),
    "lcc-admin retry": (
        ("lcc-admin retry --provider 1", "its site is back: resume at once"),
        ("lcc-admin retry --code 503", "only errors with this code"),
    ),
    "lcc-admin rebuild": (("lcc-admin rebuild", "rebuild the table of sets from the queue"),),
    "lcc-admin fsck": (
        ("lcc-admin fsck", "does the content folder agree with the database?"),
        ("lcc-admin fsck --quick", "without reading the files"),
        ("lcc-admin fsck --repair", "have lost content fetched again"),
    ),
    "lcc-admin console": (("lcc-admin console lcc 'est()'", "activity of all roles"),),
    "lcc-admin console-password": (("lcc-admin console-password me", "print a generated password"),),
    "lcc-export": (("lcc-export tar.gz --output pages.tar.gz", "the whole cache as one file"),),
    "lcc-export tar": (("lcc-export tar --provider 1 --output pages.tar", "the content of one provider"),),
    "lcc-export tar.gz": (("lcc-export tar.gz --mimetype text/html --output - | tar -tz", "preview the content"),),
    "lcc-export warc": (("lcc-export warc --output pages.warc.gz", "and its index, pages.cdxj"),),
    "lcc-export wacz": (("lcc-export wacz --output pages.wacz", "an archive that ReplayWeb.page opens"),),
    "lcc-export swish-e": (("lcc-export swish-e --output pages.swish", "the whole cache, for swish-e"),),
    "lcc-export swish++": (("lcc-export swish++ --since s.state --mirror pages", "maintain a folder of pages"),),
    "lcc-export htdig": (("lcc-export htdig -- cat", "show the URLs passed to ht://Dig"),),
    "lcc-export omega": (("lcc-export omega --output records", "the whole cache, for scriptindex"),),
    "lcc-export ndjson": (("lcc-export ndjson --since n.state --output actions.json", "changes since the last run"),),
    "lcc-export lucene": (("lcc-export lucene search.lucene", "create a Lucene index, then keep it up to date"),),
    "lcc-export tantivy": (("lcc-export tantivy search.tantivy --mimetype 'text/*'", "the same for tantivy"),),
    "lcc-export mirror-urls": (
        ("find pages -name '*.html' | lcc-export mirror-urls pages", "translate file names to URLs"),
    ),
    "lcc-job": (("lcc-job status 'page 3 of 12'", "in a worker (doc/workers.md)"),),
    "lcc-job show": (
        ("lcc-job show", "everything"),
        ("lcc-job show data", "what the last job of the task has stored"),
    ),
    "lcc-job status": (("lcc-job status 'page 3 of 12'", "shown by lcc-admin job show"),),
    "lcc-job log": (("lcc-job log --level warn 'no title'", "a row of the job's log"),),
    "lcc-job period": (("lcc-job period 2h", "less often from now on"),),
    "lcc-job retry": (("lcc-job retry 10m", "then: exit 1"),),
    "lcc-job add": (
        (
            "lcc-job add --after 12h --key comments-12 -- comments.sh http://www.example.org/index.html",
            "a follow-up in twelve hours",
        ),
    ),
    "lcc-job notify": (("lcc-job notify http://www.example.org/index.html", "have it fetched"),),
    "lcc-job store": (
        ("""lcc-job store '{"id": "a7", "title": "Cleaned"}'""", "an item"),
        ("lcc-job store --data 2024-05-01", "for the next job of the task"),
    ),
    "lcc-job commit": (("lcc-job commit", "nothing so far happens twice"),),
    "file2url": (
        ("file2url --find /var/www/html -name '*.html'", "all pages"),
        ("file2url --docroot /var/www/html docs/page.html", "one page"),
        ("ls /var/www/html | file2url --docroot /var/www/html", "files listed on standard input"),
    ),
    "lcccpstate": ((_TELL, "publish the changes"),),
    "lcccp": (
        (_TELL, "publish the changes"),
        (
            "lcccp --check --uns=lcc.example.org:9000 --pid=1 --pwd-file=password",
            "show your quota and errors at the LCC",
        ),
    ),
    "lccwatch": (
        (
            "lccwatch /var/www/html --statefile=state.txt --uns=lcc.example.org:9000 --pid=1 --pwd-file=password"
            " --urlprefix=http://www.example.org/",
            "tell what changes, until it is stopped",
        ),
    ),
}


@frozen
class Example:
    """
    :ivar meaning: a few words.
    """

    command: str
    meaning: str


def examples_of(path: str) -> list[Example]:
    """Those of a command.

    :param path: the words that call it, such as ``lcc-admin provider add``.
    """
    return [Example(*each) for each in EXAMPLES.get(path, ())]


def add_examples(command: click.Command, path: str) -> None:
    """Append examples to the help of a command and its subcommands."""
    lines = [f"  # {example.meaning}\n  {wrapped(example.command)}" for example in examples_of(path)]
    if lines:
        before = f"{command.epilog}\n\n" if command.epilog else ""
        command.epilog = f"{before}\b\nExamples:\n" + "\n".join(lines)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            add_examples(inner, f"{path} {name}")


def wrapped(command: str) -> str:
    """A pipeline, or a long command, on several lines."""
    lines = []
    for part in command.replace(" | ", " |\n").split("\n"):
        if len(part) > LINE_CHARS:
            before, _, after = part[:LINE_CHARS].rpartition(" ")
            lines += [f"{before} \\", after + part[LINE_CHARS:]]
        else:
            lines.append(part)
    return "\n      ".join(lines)
