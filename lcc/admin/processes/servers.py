"""How the search and push servers of this machine are: they have no tables, so they are asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

from lcc.admin.processes.botm_status import NotAsked, connection_here
from lcc.config import Config

_ANSWER_BYTES_MAX = 200_000
_LISTENS = "listens; its conditions are known if [{role}] metrics is set"


def servers(config: Config) -> dict[str, dict[str, Any] | None]:
    """``search`` and ``push``: None where the configuration has none, or else

    * ``listen``: its endpoint;
    * ``answers``: whether it does; ``trouble``: why not, or why no more is known;
    * ``conditions``: as of ``/readyz`` (:mod:`lcc.metrics.site`); None: they are not known.
    """
    listens = {"search": config.search.listen, "push": config.push.listen}
    own = {"search": config.search.metrics, "push": config.push.metrics}
    return {
        role: _server(
            role, config.endpoint(listen), [config.endpoint(each) for each in (own[role], config.metrics.listen)]
        )
        if listen
        else None
        for role, listen in listens.items()
    }


def server_lines(known: dict[str, dict[str, Any] | None]) -> Iterator[tuple[str, str]]:
    """For the screen."""
    for role, server in known.items():
        if server is None:
            continue
        conditions = server["conditions"] or ()
        faults = [each for each in conditions if not each["ok"]]
        state = server["trouble"] or ("not ready" if faults else "ready")
        notes = [f"; {each['name']}: {each['note']}" for each in conditions if each.get("note")]
        yield role, f"{server['listen']}: {state}{''.join(notes)}"
        for each in faults:
            yield "", f"{each['name']}: {each['fault']}; {each['remedy']}"


def _server(role: str, listen: str, metrics: list[str]) -> dict[str, Any]:
    trouble = ""
    for port in filter(None, metrics):
        try:
            conditions = _ready(role, port)
        except NotAsked as error:
            trouble = str(error)
            continue
        if conditions is not None:
            return {"listen": listen, "answers": True, "trouble": "", "conditions": conditions}
    try:
        _connect(listen)
    except NotAsked as error:
        return {"listen": listen, "answers": False, "trouble": str(error), "conditions": None}
    return {
        "listen": listen,
        "answers": True,
        "trouble": trouble or _LISTENS.format(role=role),
        "conditions": None,
    }


def _ready(role: str, port: str) -> list[dict[str, Any]] | None:
    """Its conditions; None: they are of other roles."""
    connection = connection_here(port)
    try:
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        said = json.loads(connection.getresponse().read(_ANSWER_BYTES_MAX))
        found = said["roles"].get(role)
        return None if found is None else [dict(each) for each in found["conditions"]]
    except (OSError, HTTPException) as error:
        raise NotAsked(f"its metrics port {port} is unreachable: {error or type(error).__name__}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NotAsked(f"{port} is no metrics port of the LCC") from None
    finally:
        connection.close()


def _connect(listen: str) -> None:
    connection = connection_here(listen)
    try:
        connection.connect()
    except OSError as error:
        raise NotAsked(f"unreachable: {error.strerror or error}") from None
    finally:
        connection.close()
