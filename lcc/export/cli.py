"""``lcc-export``: brings what is in an LCC to other programs.

It asks the HTTP interface of content users (``lcc-cu``), here or elsewhere.  One module for each group of commands;
the exit codes are in :mod:`lcc.export.source`.
"""

from __future__ import annotations

from pathlib import Path

import click

from lcc.commands.examples import put_into_help
from lcc.commands.failing import ToolGroup
from lcc.export.indexing import COMMANDS as INDEXING
from lcc.export.packages import COMMANDS as PACKAGES
from lcc.export.source import Source

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=ToolGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c",
    "--config",
    "config_path",
    type=_FILE,
    help="The configuration of the LCC here.  Without: lcc.toml in this folder, else the defaults.",
)
@click.option(
    "--from",
    "address",
    metavar="ADDRESS",
    help="An LCC elsewhere: http://host:port, https://host:port or unix:/path.  Without: [cu] listen.",
)
@click.option("--token-file", type=_FILE, help="Holds the token.  Without: LCC_TOKEN in the environment, else none.")
@click.option("--ca-file", type=_FILE, help="Certificate authorities for https.  Without: those of the system.")
@click.version_option(package_name="lcc", prog_name="lcc-export")
@click.pass_context
def main(
    context: click.Context,
    config_path: Path | None,
    address: str | None,
    token_file: Path | None,
    ca_file: Path | None,
) -> None:
    """Bring what is in an LCC to other programs.

    Exit codes: 0 done; 1 it cannot be done; 2 the command line is wrong, or the LCC does not take the question; 3 the
    changes since the token are no longer known; 4 the LCC cannot be reached, or its answer was cut off.
    """
    context.obj = Source(config_path, address, token_file, ca_file)


for _command in (*PACKAGES, *INDEXING):
    main.add_command(_command)

put_into_help(main, "lcc-export")
