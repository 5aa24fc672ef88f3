"""``lcc-admin search rebuild``: a new index for the search server of this machine."""

from __future__ import annotations

import os

import click

from lcc.admin.context import Admin, pass_admin
from lcc.commands.errors import Failed
from lcc.config import Config
from lcc.search.interfaces import REBUILD


def order_rebuild(config: Config) -> None:
    """Have the search server of this machine build its index anew, now or when it is started.

    :raises Failed: its folder cannot be written.
    """
    folder = config.under_home(config.search.folder)
    try:
        path = folder / REBUILD
        made = [each for each in (path, *path.parents) if not each.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        if os.geteuid() == 0 and made:
            # What root makes, lcc-search could not write.
            owner = made[-1].parent.stat()
            for each in made:
                os.chown(each, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise Failed(
            f"cannot write {folder}: {error.strerror}", "run this as the user of lcc-search, on its machine"
        ) from None


@click.command("rebuild")
@pass_admin
def rebuild_command(admin: Admin) -> None:
    """Have the index thrown away and built anew.

    Until that is done, searches find only what is in it already.
    """
    order_rebuild(admin.config)
    if admin.config.search.listen:
        click.echo("ordered: lcc-search builds its index anew, within seconds if it runs")
    else:
        click.echo("ordered, but [search] listen is not set here: no search server uses it")
