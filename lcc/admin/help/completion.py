"""``lcc-admin completion``: has a shell complete the commands, options and values of all console scripts.

The shell runs the script itself with a variable in its environment, and gets back what fits (click's protocol).
"""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete, shell_complete

from lcc.admin.help.programs import PROGRAMS, ROLES, program

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(sorted(SHELLS)))
def completion_command(shell: str) -> None:
    """Print a script for tab completion in SHELL.

    \b
    bash: in ~/.bashrc      eval "$(lcc-admin completion bash)"
    zsh:  in ~/.zshrc       eval "$(lcc-admin completion zsh)"    (after compinit)
    fish: once              lcc-admin completion fish > ~/.config/fish/conf.d/lcc.fish
    """
    click.echo(script(shell), nl=False)


def script(shell: str) -> str:
    """What the shell has to read."""
    kind = SHELLS[shell]
    made = [kind(program(name), {}, name, variable(name)) for name in PROGRAMS]
    # The template itself: source() would first start bash, to ask for its version.
    return "\n".join(each.source_template % each.source_vars() for each in made)


def variable(name: str) -> str:
    """The variable by which the shell tells the script that it wants to complete."""
    return f"_{name}_COMPLETE".replace("-", "_").upper()


def complete_role(name: str, how: str) -> int:
    """Answer the shell for a role.

    :param how: what it has put into the variable.
    :returns: the exit code.
    """
    assert name in ROLES
    return shell_complete(program(name), {}, name, variable(name), how)
