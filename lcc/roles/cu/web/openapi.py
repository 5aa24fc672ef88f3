"""``/openapi.json``: what the HTTP interface can do, as an OpenAPI 3.1 document.

It is made from the same tables as the interface itself: the fields of a question, the formats, the fields of a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lcc.insight.records import FIELDS as ROW_FIELDS
from lcc.model.states import STATES
from lcc.roles.cu.atom import MEDIA_TYPE as ATOM
from lcc.roles.cu.formats import FORMATS, JsonLines
from lcc.roles.cu.items import FIELDS as ITEM_FIELDS
from lcc.roles.cu.packages.kinds import KINDS
from lcc.roles.cu.query import FIELDS, MULTIPLE
from lcc.roles.cu.resourcesync import MEDIA_TYPE
from lcc.roles.cu.site_robots import ANSWER as ROBOTS_ANSWER
from lcc.roles.cu.site_robots import QUESTION as ROBOTS_QUESTION
from lcc.roles.cu.url_states import ANSWER as STATE_ANSWER
from lcc.roles.cu.url_states import NOTIFIER
from lcc.roles.cu.url_states import QUESTION as STATE_QUESTION
from lcc.roles.cu.web.contents import TEXT
from lcc.roles.cu.web.items import PARAMETERS as ITEM_PARAMETERS

_NULLABLE_NUMBERS = frozenset(
    ["len", "mtime", "fetched_time", "confirmed_time", "fetched_machineid", "fetched_fileid"]
)
_NULLABLE_TEXTS = frozenset(["fetched_url", "burl", "md5", "charset", "source", "headers"])
_OTHERS = {
    "format": "instead of Accept",
    "kind": "of the package",
    "wait": "seconds to wait for the next change, if there is none yet",
    "curl": "the conceptual URL; with provider, and mimetype where it has several views",
}
_ERRORS = {
    "400": "invalid query; the answer lists all its faults",
    "401": "a token is needed, or it is not known",
    "403": "this token is for rows only",
    "404": "there is nothing here",
    "405": "only GET and HEAD, or only POST",
    "410": "the changes since this token are no longer known: start again with since=0 and an empty copy; or the "
    "content is in the cache no longer",
    "412": "the content is another one now",
    "416": "the content is shorter",
    "429": "too many wrong tokens came from this address, or as many packages as may be for one user are being made: "
    "try again after Retry-After seconds",
    "501": "what this kind of package needs is not installed there",
    "503": "the database, or the content, cannot be reached, or too much is being done: try again after Retry-After "
    "seconds",
}


def _row_property(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": ROW_FIELDS[name]}
    if name in _NULLABLE_NUMBERS:
        return schema | {"type": ["integer", "null"]}
    if name in _NULLABLE_TEXTS:
        return schema | {"type": ["string", "null"]}
    if name in ("pid", "change"):
        return schema | {"type": "integer"}
    if name == "key":
        return schema | {"type": "string", "pattern": "^[0-9a-f]{40}$"}
    if name == "state":
        return schema | {"type": "string", "enum": ["cached", "deleted"]}
    return schema | {"type": "string"}


def _query_parameter(name: str, meaning: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if name in ("provider", "limit"):
        schema = {"type": "integer", "minimum": 1}
    elif name == "wait":
        schema = {"type": "integer", "minimum": 0}
    elif name == "format":
        schema = {"type": "string", "enum": list(FORMATS)}
    elif name == "kind":
        return {
            "name": name,
            "in": "query",
            "description": meaning,
            "schema": {"type": "string", "enum": list(KINDS)},
            "required": True,
        }
    if name in MULTIPLE:
        schema = {"type": "array", "items": schema}
    return {"name": name, "in": "query", "description": meaning, "schema": schema}


def _operation(summary: str, parameters: list[dict[str, Any]], good: dict[str, Any], *errors: str) -> dict[str, Any]:
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    responses = good | {status: {"description": _ERRORS[status], "content": failed} for status in errors}
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}


def _listing(summary: str, *names: str) -> dict[str, Any]:
    meanings = {**FIELDS, **_OTHERS}
    contents = {
        form.media_type: {"schema": {"$ref": "#/components/schemas/Line"} if name == "jsonl" else {"type": "string"}}
        for name, form in FORMATS.items()
    }
    good = {"200": {"description": "rows, and an end mark with the next token", "content": contents}}
    errors = ("400", "401", "405", "429", "503") + (("410",) if "since" in names else ())
    return _operation(summary, [_query_parameter(name, meanings[name]) for name in names], good, *errors)


def _content(summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    parameters = [
        *parameters,
        *(
            {"name": name, "in": "header", "schema": {"type": "string"}}
            for name in (
                *("Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"),
            )
        ),
    ]
    body: dict[str, Any] = {"*/*": {}}
    good = {
        "200": {"description": "the content, with its stored mime type and its md5 as ETag", "content": body},
        "206": {"description": "a part of it", "content": body},
        "304": {"description": "what the client has is what there is"},
    }
    return _operation(summary, parameters, good, "400", "401", "403", "404", "405", "410", "412", "416", "429", "503")


def _package() -> dict[str, Any]:
    parameters = [_query_parameter(name, {**FIELDS, **_OTHERS}[name]) for name in ("kind", *FIELDS, "wait")]
    body: dict[str, Any] = {kind.media_type: {"schema": {"type": "string"}} for kind in KINDS.values()}
    good = {"200": {"description": "the package; its last part is an end mark with the next token", "content": body}}
    summary = "Rows with their content as one file; with since, what has changed since a token"
    return _operation(summary, parameters, good, "400", "401", "403", "405", "410", "429", "501", "503")


def _questions(summary: str, name: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    """A question in JSON lines."""
    lines = {"schema": {"$ref": f"#/components/schemas/{name}Line"}}
    body = {"description": "a question a line", "required": True}
    body |= {"content": {JsonLines.media_type: {"schema": {"$ref": f"#/components/schemas/{name}Question"}}}}
    good = {"200": {"description": "a line for each, and an end mark", "content": {JsonLines.media_type: lines}}}
    described = _operation(summary, parameters, good, "400", "401", "405", "429", "503")
    return {"post": described["get"] | {"requestBody": body}}


def _states() -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": meaning, "schema": {"type": "string"}}
        for name, meaning in NOTIFIER.items()
    ]
    return _questions("What became of URLs", "State", parameters)


def _state_schemas() -> dict[str, Any]:
    number, numbers = {"type": "integer"}, {"type": ["integer", "null"]}
    text, texts = {"type": "string"}, {"type": ["string", "null"]}
    error = {
        "type": ["object", "null"],
        "properties": {"code": number, "text": text, "time": number},
        "required": ["code", "text", "time"],
        "additionalProperties": False,
    }
    states = {"type": "string", "enum": list(STATES)}
    types = {"provider": number, "state": states, "change": number, "error": error}
    types |= {"fetched_time": numbers, "confirmed_time": numbers}
    asked = {"provider": number, "curl": text, "key": text, "set": number}
    allow = {"type": ["string", "null"], "enum": ["rules", "all", "none", None]}
    robots = {
        "origin": text,
        "allow": allow,
        "rules": texts,
        "checked_time": numbers,
        "delay_seconds": {"type": "number"},
        "providers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"root": text, "provider": number},
                "required": ["root", "provider"],
                "additionalProperties": False,
            },
        },
    }
    state = {name: types.get(name, texts) for name in STATE_ANSWER}
    end = {"$ref": "#/components/schemas/End"}
    return {
        "StateQuestion": _object(STATE_QUESTION, asked, ()),
        "StateLine": {"anyOf": [_object(STATE_ANSWER, state, STATE_ANSWER), end]},
        "RobotsQuestion": _object(ROBOTS_QUESTION, {"origin": text}, ROBOTS_QUESTION),
        "RobotsLine": {"anyOf": [_object(ROBOTS_ANSWER, robots, ROBOTS_ANSWER), end]},
    }


def _object(meanings: dict[str, str], types: dict[str, Any], required: Iterable[str]) -> dict[str, Any]:
    properties = {name: {"description": meaning} | types[name] for name, meaning in meanings.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _path_parameter(name: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": meaning, "schema": {"type": "string"}}


def _resourcesync(summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    body = {MEDIA_TYPE: {"schema": {"type": "string"}}}
    good = {"200": {"description": "the document", "content": body}}
    return _operation(summary, parameters, good, "400", "401", "403", "404", "405", "429", "503")


def _atom() -> dict[str, Any]:
    names = [name for name in FIELDS if name != "key"]
    body = {ATOM: {"schema": {"type": "string"}}}
    good = {"200": {"description": "entries, deletions as RFC 6721 has them, and a link onwards", "content": body}}
    summary = "What has changed in a selection lately, or since a token, as an Atom feed: the topics of /hub"
    parameters = [_query_parameter(name, FIELDS[name]) for name in names]
    return _operation(summary, parameters, good, "400", "401", "405", "410", "429", "503")


def _hub() -> dict[str, Any]:
    fields = ("hub.mode", "hub.topic", "hub.callback", "hub.secret", "hub.lease_seconds")
    form = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in fields},
        "required": list(fields[:3]),
    }
    told = {"type": "object", "properties": {"accepted": {"type": "string"}, "lease_seconds": {"type": "integer"}}}
    good = {
        "202": {
            "description": "stored; the callback is asked whether it is meant",
            "content": {"application/json": {"schema": told}},
        }
    }
    summary = "WebSub: subscribe to an Atom feed, or no longer (where [cu] hub is set)"
    operation = _operation(summary, [], good, "400", "401", "404", "405", "429", "503")["get"]
    body = {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": form}}}
    return {"post": {**operation, "requestBody": body}}


def _items() -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    for name, meaning in ITEM_PARAMETERS.items():
        schema: dict[str, Any] = {"type": "string"} if name == "since" else {"type": "integer", "minimum": 1}
        if name == "feed":
            schema = {"type": "array", "items": schema}
        parameters.append({"name": name, "in": "query", "description": meaning, "schema": schema})
    body = {JsonLines.media_type: {"schema": {"$ref": "#/components/schemas/ItemLine"}}}
    good = {"200": {"description": "items, and an end mark with the next token", "content": body}}
    summary = "New and changed items of feeds since a token, in the order of the changes"
    return _operation(summary, parameters, good, "400", "401", "405", "410", "429", "503")


def _item_property(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": ITEM_FIELDS[name]}
    if name in ("feed", "change", "found_time", "changed_time", "published", "updated"):
        return schema | {"type": "integer"}
    if name in ("summary", "content"):
        return schema | {"type": "object"}
    if name in ("authors", "categories", "enclosures", "links", "places"):
        return schema | {"type": "array", "items": {"type": "object"}}
    return schema | {"type": "string"}


def document(version: str) -> dict[str, Any]:
    """The document.

    :param version: of the LCC.
    """
    key = {"name": "key", "in": "path", "required": True, "schema": _row_property("key")}
    as_text = {
        "name": "as",
        "in": "query",
        "description": "the text of a page instead of its content; 404 where none was made",
        "schema": {"type": "string", "enum": [TEXT]},
    }
    selecting = tuple(name for name in FIELDS if name not in ("since", "limit"))
    naming = [
        _query_parameter("provider", FIELDS["provider"]),
        _query_parameter("curl", _OTHERS["curl"]),
        _query_parameter("mimetype", FIELDS["mimetype"]),
        _query_parameter("source", FIELDS["source"]),
        as_text,
    ]
    row = {
        "type": "object",
        "properties": {name: _row_property(name) for name in ROW_FIELDS},
        "required": list(ROW_FIELDS),
        "additionalProperties": False,
    }
    item = {
        "type": "object",
        "description": "an item of a feed; other workers and plugins store fields of their own",
        "properties": {name: _item_property(name) for name in ITEM_FIELDS},
        "required": ["feed", "item", "change", "found_time", "changed_time"],
    }
    end = {
        "type": "object",
        "description": "the end mark, the last line: the token to come back with, null if none was asked for",
        "properties": {
            "next": {"type": ["string", "null"]},
            "missing": {
                "type": "array",
                "items": {"type": "string"},
                "description": "sub-LCCs of a front end that could not be reached: what changed there comes later",
            },
        },
        "required": ["next"],
        "additionalProperties": False,
    }
    error = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "faults": {"type": "array", "items": {"type": "string"}}},
        "required": ["error"],
        "additionalProperties": False,
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "LCC content users",
            "version": version,
            "description": "Reading a Local Content Cache: rows, changes, content. HEAD is answered wherever GET is.",
        },
        "security": [{"token": []}, {}],
        "paths": {
            "/urls": _listing("What is in the cache now, in the order of the keys", *selecting, "limit", "format"),
            "/changes": _listing(
                "What has changed since a token, in the order of the changes", *FIELDS, "wait", "format"
            ),
            "/content/{key}": _content("The content of a URL", [key, as_text]),
            "/content": _content("The content of a URL by its name", naming),
            "/items": _items(),
            "/atom": _atom(),
            "/hub": _hub(),
            "/package": _package(),
            "/states": _states(),
            "/robots": _questions("What robots.txt of sites say", "Robots", []),
            "/.well-known/resourcesync": _resourcesync("ResourceSync: the source description", []),
            "/resourcesync/{provider}/{document}": _resourcesync(
                "ResourceSync: capability list, resource list and change list of a provider",
                [_path_parameter("provider", "its id"), _path_parameter("document", "its name, with .xml")],
            ),
            "/resourcesync/{provider}/{list}/{part}": _resourcesync(
                "ResourceSync: a part of a list, as its index names it",
                [_path_parameter(name, "as in the index") for name in ("provider", "list", "part")],
            ),
            "/openapi.json": _operation(
                "This document", [], {"200": {"description": "it", "content": {"application/json": {}}}}, "405"
            ),
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "lcc-admin user add"}},
            "schemas": {
                "Row": row,
                "End": end,
                "Line": {"anyOf": [{"$ref": "#/components/schemas/Row"}, {"$ref": "#/components/schemas/End"}]},
                "Item": item,
                "ItemLine": {"anyOf": [{"$ref": "#/components/schemas/Item"}, {"$ref": "#/components/schemas/End"}]},
                **_state_schemas(),
                "Error": error,
            },
        },
    }
