"""The commands at the console: ``est()``, ``queue()``, ``provider(7)``, ``pause()``, ``resume()``, ``help()``.

Each role has *commands*: an object whose methods of these names show what the role knows, or change it.  In a
process with several roles a command asks each of them that has an answer, or those that are named: ``est("qm")``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from twisted.logger import Logger

from lcc.console.text import Text, screen
from lcc.domain.wording import Lines

_log = Logger()

SHOWN = 20
"""Default limit of ``queue()``."""


class SessionCommands:
    """The commands of one session.

    :param commands: of the roles in this process, by name.
    :param who: the operator, for the log.
    """

    def __init__(self, commands: Mapping[str, Any], who: str) -> None:
        self._commands = commands
        self._who = who

    def namespace(self) -> dict[str, Any]:
        """The commands by their names."""
        found: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("est", "queue", "provider", "pause", "resume")
            if any(hasattr(commands, name) for commands in self._commands.values())
        }
        return {**found, "help": self.help, "exit": leave, "quit": leave, "input": no_input}

    def est(self, *roles: str) -> Text:
        """Engine status: peers, waiting and current work, timers, counts."""
        return self._ask("est", roles, lambda commands: commands.est())

    def queue(self, *roles: str, limit: int = SHOWN) -> Text:
        """Waiting work, next first; queue(limit=100) shows more."""
        return self._ask("queue", roles, lambda commands: commands.queue(limit))

    def provider(self, pid: int, *roles: str) -> Text:
        """State of a provider in this process."""
        return self._ask("provider", roles, lambda commands: commands.provider(pid))

    def pause(self, *roles: str) -> Text:
        """Start nothing new until resume() or a restart; finish what is begun."""
        return self._tell("pause", roles)

    def resume(self, *roles: str) -> Text:
        """Go on after pause()."""
        return self._tell("resume", roles)

    def help(self, thing: object = None) -> Text:
        """This list; help(thing) shows the documentation of a thing."""
        if thing is not None:
            return Text(inspect.getdoc(thing) or "no documentation")
        commands = self.namespace()
        lines: Lines = []
        for name, command in commands.items():
            if name in ("exit", "quit", "input"):
                continue
            first, _, _ = (inspect.getdoc(command) or "").partition("\n")
            lines.append((f"{name}({'7' if name == 'provider' else ''})", first))
        lines.append(("exit()", "Leave (or Ctrl-D)."))
        for role in self._commands:
            lines.append((role, "The engine of this role, for inspection."))
        lines.append(("services", "The services of this process, by name."))
        if len(self._commands) > 1:
            lines.append(("", f"Commands take names of roles, too: est({next(iter(self._commands))!r})."))
        lines.append(("", "Anything else is Python, run inside the process: what blocks, blocks the role."))
        return Text(screen(lines))

    def _tell(self, command: str, roles: tuple[str, ...]) -> Text:
        def tell(commands: Any) -> Lines:
            lines: Lines = getattr(commands, command)()
            return lines

        asked = ", ".join(self._asked(command, roles))
        _log.warn("Console: {who}: {command}() for {roles}", who=self._who, roles=asked, command=command)
        return self._ask(command, roles, tell)

    def _asked(self, command: str, roles: tuple[str, ...]) -> list[str]:
        for role in roles:
            if role not in self._commands:
                raise ValueError(f"no role {role!r} in this process, only {', '.join(self._commands)}")
            if not hasattr(self._commands[role], command):
                raise ValueError(f"{role} has no {command}()")
        return [role for role in roles or self._commands if hasattr(self._commands[role], command)]

    def _ask(self, command: str, roles: tuple[str, ...], ask: Callable[[Any], Lines]) -> Text:
        answers: list[str] = []
        asked = self._asked(command, roles)
        for role in asked:
            heading = [f"--- {role}"] if len(self._commands) > 1 else []
            answers.append("\n".join([*heading, screen(ask(self._commands[role]))]))
        return Text("\n".join(answers))


def leave() -> None:
    """End this session."""
    raise SystemExit


def no_input(prompt: object = "") -> str:
    """Not available: it would read the process's own standard input, and block."""
    raise RuntimeError("input() is not available at the console")
