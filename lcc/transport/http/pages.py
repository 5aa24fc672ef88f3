"""Web pages: resources whose methods are coroutines, templates that escape everything, forms that were sent."""

from __future__ import annotations

from collections.abc import Callable
from email import message_from_bytes
from email.policy import HTTP as HTTP_POLICY
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, StrictUndefined
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.model.shellwords import shell_word
from lcc.transport.http.replies import Explained, HttpError, run
from lcc.transport.http.server import BodyRequest, text_header

HTML = "text/html; charset=utf-8"
FIELDS_MAX = 40


def html_templates(package: str) -> Environment:
    """The templates in a package's folder ``templates``: what they show is escaped, what they need must be there.

    ``|shell`` makes a word of a command line that is shown (:func:`lcc.model.shellwords.shell_word`).
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shell"] = shell_word
    return environment


class Page(Resource):
    """A page; override the methods that it has.

    :param explain: says what a failure is.
    :param show: replies with that.
    """

    isLeaf = True
    methods: tuple[bytes, ...] = (b"GET", b"HEAD")

    def __init__(self, explain: Callable[[Failure], Explained], show: Callable[[Request, Explained], None]) -> None:
        super().__init__()
        self._explain = explain
        self._show_failure = show

    async def get(self, request: BodyRequest) -> None:
        """Answer GET and HEAD."""
        raise NotImplementedError

    async def post(self, request: BodyRequest) -> None:
        """Answer POST."""
        raise NotImplementedError

    def render(self, request: Any) -> int:
        if request.method not in self.methods:
            allow = b", ".join(self.methods).decode()
            self._show_failure(request, (405, {"error": f"Only {allow}."}, {"allow": allow}))
        elif request.postpath and not self.takes(request):
            self._show_failure(request, (404, {"error": "There is nothing here."}, {}))
        else:
            answer = self.post if request.method == b"POST" else self.get
            run(request, self._explain, answer, request, show=self._show_failure)
        return NOT_DONE_YET

    def takes(self, request: Any) -> bool:
        """Whether there is something below it."""
        return False


def read_form(request: BodyRequest) -> dict[str, str]:
    """What a form that was sent has in its fields.

    :raises HttpError: it is no such form.
    """
    kind = (text_header(request, "content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HttpError(415, "a form is needed")
    try:
        text = request.body().decode("ascii")
    except UnicodeDecodeError:
        raise HttpError(400, "this is no form of ours") from None
    return _fields(text, "this is no form of ours")


def read_upload(request: BodyRequest) -> dict[str, str]:
    """The same of a form with files; of these each byte is the character of that number.

    :raises HttpError: it is no such form.
    """
    kind = text_header(request, "content-type") or ""
    if kind.partition(";")[0].strip().lower() != "multipart/form-data":
        raise HttpError(415, "a form with a file is needed")
    head = f"Content-Type: {kind}\r\n\r\n".encode("latin-1")
    fields: dict[str, str] = {}
    for number, part in enumerate(message_from_bytes(head + request.body(), policy=HTTP_POLICY).walk()):
        if not number:
            continue
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        if number > FIELDS_MAX or not isinstance(name, str) or not isinstance(data, bytes) or name in fields:
            raise HttpError(400, "this is no form of ours")
        fields[name] = data.decode("latin-1" if part.get_filename() is not None else "utf-8", "replace")
    return fields


def read_query(request: Request) -> dict[str, str]:
    """What the address of a page says behind its question mark.

    :raises HttpError: it cannot be understood.
    """
    text = request.uri.partition(b"?")[2].decode("latin-1")
    return _fields(text, "this address cannot be understood")


def _fields(text: str, fault: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise HttpError(400, fault) from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise HttpError(400, "a field comes twice")
    return fields
