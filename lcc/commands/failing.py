"""A command that cannot be done: what is wrong, and what to do next."""

from __future__ import annotations

from typing import IO, Any

import click


class Failed(click.ClickException):
    """Said in a line, and the next step in another.

    :param message: what is wrong, and where.
    :param then: what to do about it.  Nobody is left alone with an error: there is always something.
    """

    exit_code = 1

    def __init__(self, message: str, then: str) -> None:
        super().__init__(message)
        self.then = then

    def show(self, file: IO[Any] | None = None) -> None:
        """Print both."""
        super().show(file)
        click.echo(f"Next: {self.then}", file=file, err=True)
