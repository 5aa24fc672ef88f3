"""``/openapi.json``: the HTTP API as an OpenAPI 3.1 document, made from the same tables as the pages."""

from __future__ import annotations

from typing import Any

from lcc.model import Progress, Proves
from lcc.roles.rs.web.failures import STATUSES
from lcc.roles.rs.web.forms import FORMS, Field

_ERRORS = {
    "400": "the body is not a JSON object, or fields are invalid: faults lists all of them",
    "403": "unknown provider or wrong password",
    "404": "no such registration, or it has expired",
    "405": "another method",
    "409": "invalid request, or secret not found: url, code, name and text say where and why",
    "415": "the body is not application/json",
    "429": "too many requests from this address or for this site: retry after Retry-After seconds",
    "503": "temporarily unavailable: retry after Retry-After seconds",
}
_NULLABLE = {"type": ["string", "null"]}


def _property(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": f"{field.label}. {field.hint}".strip(), "examples": [field.example]}
    kinds = ["string", "integer"] if field.example.isdigit() and len(field.example) < 20 else ["string"]
    return schema | {"type": kinds if len(kinds) > 1 else kinds[0]}


def _asking(kind: Proves) -> dict[str, Any]:
    fields = FORMS[kind]
    properties: dict[str, Any] = {"kind": {"const": kind.value}}
    properties |= {field.name: _property(field) for field in fields}
    properties["mail"] = {
        "type": "boolean",
        "description": "also mail secret and password to the contact, if there is a mail server (kind provider only)",
    }
    required = [field.name for field in fields if field.required]
    if kind is not Proves.PROVIDER:
        required = ["kind", *required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _registration() -> dict[str, Any]:
    properties: dict[str, Any] = {
        "number": {"type": "integer", "description": "its name for operators"},
        "kind": {"enum": [kind.value for kind in Proves]},
        "state": {
            "enum": [state.value for state in Progress],
            "description": "proven: the secret was found, and the operator has to approve",
        },
        "file": {"type": "string", "description": "name of the file with the secret"},
        "urls": {
            "type": "array",
            "items": {"type": "string"},
            "description": "where it must be available: all of them",
        },
        "roots": {"type": "array", "items": {"type": "string"}, "description": "folders that it proves"},
        "pid": {"type": ["integer", "null"], "description": "the provider; null: none yet"},
        "expires": {"type": "integer", "description": "when it expires; seconds since 1970"},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _error() -> dict[str, Any]:
    properties: dict[str, Any] = {
        "kind": {"enum": sorted({*STATUSES, "request", "internal"})},
        "error": {"type": "string", "description": "in words"},
        "faults": {"type": "object", "additionalProperties": {"type": "string"}, "description": "by field"},
        "url": {"type": "string", "description": "URL where the secret was expected"},
        "code": {"type": "integer", "description": "an HTTP status, or a code of the LCC"},
        "name": {"type": "string", "description": "of that code"},
        "text": {"type": "string", "description": "details"},
    }
    return {"type": "object", "properties": properties, "required": ["kind", "error"], "additionalProperties": False}


def _operation(summary: str, good: str, schema: str, *errors: str, body: Any = None) -> dict[str, Any]:
    def content(name: str) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}

    responses: dict[str, Any] = {good: {"description": "done", "content": content(schema)}}
    responses |= {status: {"description": _ERRORS[status], "content": content("Error")} for status in errors}
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def document(version: str) -> dict[str, Any]:
    """The document.

    :param version: of the LCC.
    """
    asking = {"anyOf": [{"$ref": f"#/components/schemas/Ask-{kind.value}"} for kind in Proves]}
    given = {
        "type": "object",
        "properties": {
            "ticket": {
                "type": "string",
                "pattern": "^[1-9][0-9]*-[0-9a-f]{32}$",
                "description": "identifies the registration in later requests",
            },
            "secret": {"type": "string", "description": "required content of the file, and nothing else; shown once"},
            "password": _NULLABLE
            | {"description": "password of the provider, valid from the proof on; shown once; null: unchanged"},
        },
        "required": ["ticket", "secret", "password"],
    }
    ticket = {
        "name": "ticket",
        "in": "path",
        "required": True,
        "description": "as returned by the first step",
        "schema": {"type": "string"},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "LCC registration",
            "version": version,
            "description": "Registration of content providers: request it, put the file on the site, have it "
            "checked.",
        },
        "paths": {
            "/api/registrations": {
                "post": _operation(
                    "Step one: request",
                    *("201", "Given", "400", "403", "404", "405", "409", "415", "429", "503"),
                    body=asking,
                )
            },
            "/api/registrations/{ticket}": {
                "parameters": [ticket],
                "get": _operation("State of a registration", "200", "Registration", "404", "405", "503"),
            },
            "/api/registrations/{ticket}/check": {
                "parameters": [ticket],
                "post": _operation(
                    "Step two: check for the secret",
                    *("200", "Registration", "400", "404", "405", "409", "415", "429", "503"),
                    body={"type": "object"},
                ),
            },
        },
        "components": {
            "schemas": {
                **{f"Ask-{kind.value}": _asking(kind) for kind in Proves},
                "Registration": _registration(),
                "Given": {"allOf": [{"$ref": "#/components/schemas/Registration"}, given]},
                "Error": _error(),
            }
        },
    }
