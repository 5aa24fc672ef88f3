"""``/openapi.json`` of the push server: what providers can do by HTTP, as an OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any

_NULLABLE_NUMBER = {"type": ["integer", "null"]}
_NULLABLE_TEXT = {"type": ["string", "null"]}
_ERRORS = {
    "400": "the query, or the body, cannot be read; error says where",
    "401": "unknown provider or wrong password",
    "403": "no unsolicited full set is allowed at this time, or the provider is no longer registered",
    "405": "another method",
    "408": "nothing of the body came for too long",
    "409": "a request with this Idempotency-Key is under way, or nobody knows what became of its full set",
    "413": "the set, or one of its lines, is too long",
    "415": "the body has a Content-Encoding",
    "422": "the set is refused, or its Idempotency-Key was used for another query; error says why",
    "429": "too many wrong passwords, connections or keys: try again after Retry-After seconds",
    "503": "the UNS or the database is unreachable, or the server is paused: send it again after Retry-After seconds",
}
_ELEMENT = {
    "type": "object",
    "description": "an element: the attributes of <url> in the CP/UNS protocol, by their short or long names",
    "properties": {
        "c": {"type": "string", "description": "conceptual URL, absolute or behind urlprefix"},
        "m": {"type": "string", "description": "mime type"},
        "op": {"enum": ["update", "delete"]},
        "md5": {"type": "string"},
        "len": {"type": ["integer", "string"]},
        "mtime": {"type": ["integer", "string"]},
    },
    "additionalProperties": {"type": ["string", "integer", "null"]},
}
_URL_ERROR = {
    "type": "object",
    "description": "an element that was refused",
    "properties": {
        "url": {"type": "string", "description": "its fetch URL, as far as it was understood"},
        "code": {"type": "integer"},
        "error": {"type": "string"},
        "element": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["url", "code", "error", "element"],
    "additionalProperties": False,
}
_VERDICT: dict[str, Any] = {
    "type": "object",
    "description": "the last line",
    "properties": {
        "accepted": {
            "type": ["boolean", "null"],
            "description": "the set is on stable storage; null: it is not known",
        },
        "received": {"type": "integer", "description": "elements that were valid"},
        "refused": {"type": "integer", "description": "elements that were not"},
        "blanked_subtypes": {"type": "integer", "description": "elements that were taken without their subtype"},
        "errors_omitted": {"const": True, "description": "a repeated answer without the lines of its errors"},
        "code": {"type": "integer", "description": "why the set was refused"},
        "error": {"type": "string", "description": "the same in words"},
    },
    "required": ["accepted"],
    "additionalProperties": False,
}


def _counted(unit: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": unit,
        "properties": {"used": {"type": "integer"}, "free": _NULLABLE_NUMBER | {"description": "null: no limit"}},
        "required": ["used", "free"],
        "additionalProperties": False,
    }


def _status() -> dict[str, Any]:
    properties: dict[str, Any] = {
        "connection": {"type": "integer", "description": "counts the provider's connections"},
        "last_address": _NULLABLE_TEXT | {"description": "where the connection before this one came from"},
        "mimetypes": {"type": "array", "items": {"type": "string"}, "description": "patterns of what the LCC takes"},
        "files": _counted("quota of files"),
        "space_bytes": _counted("quota of space"),
        "full_sets_left": _NULLABLE_NUMBER | {"description": "unsolicited full sets still allowed; null: no limit"},
        "full_set_wanted": _NULLABLE_TEXT | {"description": "why the LCC asks for a full set; null: it does not"},
        "deletions_held": {
            "type": "object",
            "description": "deletions of the last full set that wait for the provider's word",
            "properties": {"held": {"type": "integer"}, "of": {"type": "integer"}},
            "required": ["held", "of"],
        },
        "processing": {"type": "integer", "description": "URLs that wait to be fetched"},
        "errors": {
            "type": "object",
            "description": "of earlier fetches; POST /sets?errors_upto=UPTO says that they have been read",
            "properties": {
                "count": {"type": "integer"},
                "upto": {"type": "integer"},
                "urls": {"type": "array", "items": {"$ref": "#/components/schemas/UrlError"}},
            },
            "required": ["count", "upto", "urls"],
        },
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _parameter(name: str, where: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": where, "description": description, "schema": schema}


def _failures(*statuses: str) -> dict[str, Any]:
    schema = {"schema": {"$ref": "#/components/schemas/Failure"}}
    return {each: {"description": _ERRORS[each], "content": {"application/json": schema}} for each in statuses}


def document(version: str) -> dict[str, Any]:
    """The document.

    :param version: of the LCC.
    """
    lines = {"anyOf": [{"$ref": "#/components/schemas/UrlError"}, {"$ref": "#/components/schemas/Verdict"}]}
    sets = {
        "summary": "Submit a set of URLs",
        "description": "The answer is a line of JSON for each element that is refused, as soon as it is, then the "
        "verdict. Where an error was sent before the verdict was known, the status is 200 whatever the verdict.",
        "parameters": [
            _parameter("kind", "query", "full: all pages of the provider", {"enum": ["partial", "full"]}),
            _parameter("urlprefix", "query", "put before relative URLs", {"type": "string"}),
            _parameter("deletions", "query", "all that the set deletes is meant", {"enum": ["no", "yes"]}),
            _parameter(
                "errors_upto",
                "query",
                "the errors that /status has shown have been read: its errors.upto, which is no count",
                {"type": "integer", "minimum": 0},
            ),
            _parameter(
                "Idempotency-Key",
                "header",
                "a request that is repeated with the same key is one set",
                {"type": "string", "maxLength": 200},
            ),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {"schema": {"$ref": "#/components/schemas/Element"}},
                "application/xml": {"schema": {"type": "string", "description": "<url> elements, without a root"}},
            },
        },
        "responses": {
            "200": {
                "description": "the last line says whether the set is accepted",
                "content": {"application/x-ndjson": {"schema": lines}},
            },
            **_failures("400", "401", "403", "405", "408", "409", "413", "415", "422", "429", "503"),
        },
    }
    schema = {"schema": {"$ref": "#/components/schemas/Status"}}
    status = {
        "summary": "How the provider stands",
        "responses": {
            "200": {"description": "what the UNS says in its greeting", "content": {"application/json": schema}},
            **_failures("401", "405", "429", "503"),
        },
    }
    failure = {
        "type": "object",
        "properties": {key: _VERDICT["properties"][key] for key in ("accepted", "code", "error")},
        "required": ["error"],
        "additionalProperties": False,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "LCC push server: sets of providers", "version": version},
        "security": [{"password": []}, {"token": []}],
        "paths": {"/sets": {"post": sets}, "/status": {"get": status}},
        "components": {
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic", "description": "the provider's id and password"},
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "lcc-admin provider set PID --new-token",
                },
            },
            "schemas": {
                "Element": _ELEMENT,
                "UrlError": _URL_ERROR,
                "Verdict": _VERDICT,
                "Failure": failure,
                "Status": _status(),
            },
        },
    }
