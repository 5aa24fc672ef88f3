"""Holds replies against the OpenAPI documents of the roles that give them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from jsonschema import Draft202012Validator

from lcc.roles.cu.web.openapi import document
from lcc.roles.rs.web.openapi import document as registration_document

if TYPE_CHECKING:
    from .browser import Reply


@lru_cache(maxsize=1)
def described() -> dict[str, Any]:
    return document("1")


def _schema(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": described()["components"]})


def _template(path: str) -> str:
    """The path as the document names it."""
    parts = path.split("/")
    for template in described()["paths"]:
        names = template.split("/")
        if len(names) == len(parts) and all(
            name == part or name.startswith("{") for name, part in zip(names, parts, strict=True)
        ):
            return str(template)
    return path


def check_content_reply(target: str, method: str, status: int, media_type: str, body: bytes) -> None:
    """A reply of the HTTP interface for content users must be one that the document tells of.

    What is wrong with a request on purpose (another method, an unknown path or parameter) is told by its status only.
    """
    url = urlsplit(target)
    path = "/content/{key}" if url.path.startswith("/content/") else _template(url.path)
    known = described()["paths"].get(path)
    if known is None:
        assert status == 404, target
        return
    if method not in ("GET", "HEAD") or "get" not in known:
        assert status == 405
        return
    operation = known["get"]
    assert str(status) in operation["responses"], f"{target}: {status} is not described"
    if status == 200:
        names = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"}
        asked = {name for name, _ in parse_qsl(url.query)}
        assert asked <= names, f"{target}: {asked - names} is not described"
    if status == 304 or method == "HEAD":
        return
    contents = operation["responses"][str(status)]["content"]
    media_type = media_type.partition(";")[0]
    assert media_type in contents or "*/*" in contents, f"{target}: {media_type} is not described"
    if media_type == "application/x-ndjson":
        line_schema = _schema("ItemLine" if path == "/items" else "Line")
        for line in body.splitlines():
            line_schema.validate(json.loads(line))
        assert "next" in json.loads(body.splitlines()[-1])
    elif status >= 400:
        _schema("Error").validate(json.loads(body))


def check_lines(target: str, status: int, body: bytes) -> None:
    """A reply to a question in JSON lines, that makes sense or not, must be one that the document tells of."""
    operation = described()["paths"].get(target.partition("?")[0], {}).get("post")
    if operation is None or status in (413, 503):  # by the connection itself
        return
    assert str(status) in operation["responses"], f"{target}: {status} is not described"
    if status != 200:
        _schema("Error").validate(json.loads(body))
        return
    ((_, content),) = operation["responses"]["200"]["content"].items()
    schema = _schema(content["schema"]["$ref"].rpartition("/")[2])
    for line in body.splitlines():
        schema.validate(json.loads(line))


def check_registration_reply(path: str, method: str, reply: Reply) -> None:
    """A reply of the registration API must be one that its document tells of."""
    described = registration_document("1")
    parts = path.removeprefix("/api/registrations").strip("/").split("/")
    shape = "/api/registrations" + "/{ticket}" * bool(parts[0]) + "/check" * (len(parts) > 1)
    operation = described["paths"][shape][method.lower()]
    assert str(reply.status) in operation["responses"], f"{method} {path}: {reply.status} is not described"
    schema = operation["responses"][str(reply.status)]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": described["components"]}).validate(reply.json())
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
