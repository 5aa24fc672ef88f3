"""``lcc-export``: brings what is in an LCC to other programs.

It asks the HTTP interface of content users (``lcc-cu``), here or elsewhere.  One module for each group of commands;
the exit codes are in :mod:`lcc.export.source`.
"""

from __future__ import annotations

from pathlib import Path

import click

from lcc.commands.errors import ToolGroup
from lcc.commands.examples import add_examples
from lcc.export.embedded import COMMANDS as EMBEDDED
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
    help="Configuration of the local LCC.  Default: lcc.toml in the current folder, if any.",
)
@click.option(
    "--from",
    "address",
    metavar="ADDRESS",
    help="Remote LCC: http://host:port, https://host:port or unix:/path.  Default: cu.sock in the home folder.",
)
@click.option(
    "--token-file", type=_FILE, help="File with the token.  Default: LCC_TOKEN in the environment, else none."
)
@click.option("--ca-file", type=_FILE, help="CAs for https.  Default: those of the system.")
@click.version_option(package_name="lcc", prog_name="lcc-export")
@click.pass_context
def main(
    context: click.Context,
    config_path: Path | None,
    address: str | None,
    token_file: Path | None,
    ca_file: Path | None,
) -> None:
    """Export the cache of an LCC.

    Exit codes: 0 success; 1 failure; 2 usage error, or the LCC rejected the request; 3 the changes since the token
    are no longer known; 4 the LCC is unreachable, or its response was cut off.
    """
    context.obj = Source(config_path, address, token_file, ca_file)


for _command in (*PACKAGES, *INDEXING, *EMBEDDED):
    main.add_command(_command)

add_examples(main, "lcc-export")
