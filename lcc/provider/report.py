"""The output of ``lcccp``: state of the provider, errors, quota warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from urllib.parse import urlsplit

import attrs

from lcc.domain.advice import advice
from lcc.domain.wording import duration
from lcc.errors import code as code_of
from lcc.protocols.cp_uns import InitAccepted, UrlFault
from lcc.provider.command import printable


@attrs.frozen
class Plan:
    """A set about to be sent.

    :ivar elements: all containers.
    :ivar deletions: how many of them delete.
    :ivar bytes: of the content of those that do not, as far as they tell their length.
    :ivar added: how many of them are new to the LCC; None: not known.
    :ivar full: it is a full set.
    """

    elements: int
    deletions: int
    bytes: int
    added: int | None
    full: bool


def bytes_text(number: int) -> str:
    """A size for people: ``1,023 bytes``, ``12.3 MiB``."""
    if number < 1024:
        return f"{number:,} bytes"
    size = float(number)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1024 or unit == "TiB":
            return f"{size:,.1f} {unit}"
    raise AssertionError


def welcome_lines(welcome: InitAccepted) -> list[str]:
    """The state of the provider, without errors, a line each."""
    last = f", the previous one came from {printable(welcome.last_ip)}" if welcome.last_ip else ", the first one"
    lines = [
        f"connection:  number {welcome.connseq}{last}",
        f"mime types:  {printable(', '.join(welcome.mimetypes), 4000)}",
        f"files:       {welcome.files_used:,} used, {_free(welcome.files_free, '{:,}')}",
        f"space:       {bytes_text(welcome.space_used_bytes)} used, {_free_bytes(welcome.space_free_bytes)}",
        f"full sets:   {_allowed(welcome.full_sets_left)}",
        f"processing:  {welcome.processing:,} URLs waiting to be fetched",
        f"errors:      {welcome.error_count:,} of earlier fetches",
    ]
    if welcome.deletions_held:
        lines.append(f"HELD:        {held_line(welcome)}")
    if welcome.full_set_wanted:
        lines.append(f"WANTED:      a full set, because of {wanted_reason(welcome)}")
    return lines


def held_line(welcome: InitAccepted) -> str:
    """The deletions that the LCC holds until they are confirmed."""
    held = counted(welcome.deletions_held, "URL", "URLs")
    return f"{held} of {welcome.deletions_of:,} in the cache are not in the last full set: deletion held"


def wanted_reason(welcome: InitAccepted) -> str:
    """Why the LCC wants a full set; '' if it does not."""
    return (printable(welcome.full_set_reason, 100) or "an unknown reason") if welcome.full_set_wanted else ""


def _free(free: int | None, form: str) -> str:
    return "no limit" if free is None else f"{form.format(free)} free"


def _free_bytes(free: int | None) -> str:
    return "no limit" if free is None else f"{bytes_text(free)} free"


def _allowed(left: int | None) -> str:
    return "no limit" if left is None else f"{left:,} more unsolicited ones allowed"


def quota_warnings(welcome: InitAccepted, plan: Plan) -> list[str]:
    """Whether the set would overflow the quotas.

    In a full set that is certain; a partial one may replace what is there, so that it is only possible.
    """
    warnings = []
    updates = plan.elements - plan.deletions
    if welcome.files_free is not None:
        if plan.full:
            limit, growth = welcome.files_used + welcome.files_free, updates
        else:
            limit, growth = welcome.files_free, (updates if plan.added is None else plan.added) - plan.deletions
        if growth > limit:
            how = "exceeds" if plan.full or plan.added is not None else "may exceed"
            warnings.append(f"this set {how} the file quota: {growth:,} files, room for {limit:,}")
    if welcome.space_free_bytes is not None:
        limit = welcome.space_free_bytes + (welcome.space_used_bytes if plan.full else 0)
        if plan.bytes > limit:
            how = "exceeds" if plan.full else "may exceed"
            told = f"{bytes_text(plan.bytes)}, room for {bytes_text(limit)}"
            warnings.append(f"this set {how} the space quota: {told}")
    return warnings


def counted(number: int, one: str, many: str) -> str:
    """A number with its noun: ``1 URL``, ``7 URLs``."""
    return f"{number:,} {one if number == 1 else many}"


def failed_again(number: int, wait_seconds: int) -> str:
    """When URLs that could not be fetched are submitted again automatically."""
    again = counted(number, "of these URLs is", "of these URLs are")
    if not wait_seconds:
        return f"{again} submitted again by the next run of lcccpstate and lcccp"
    return f"{again} submitted again in {duration(wait_seconds)} or later; at once with lcccpstate --retry-failed"


def accepted_line(plan: Plan, received: int) -> str:
    """What was accepted, for people.

    :param received: elements that the LCC counts as valid.
    """
    kind = "full set" if plan.full else "set"
    text = f"accepted: a {kind} of {counted(plan.elements, 'URL', 'URLs')}"
    if plan.deletions:
        text += f", {counted(plan.deletions, 'of them a deletion', 'of them deletions')}"
    if not plan.elements:
        return text
    if received == plan.elements:
        return f"{text}, {'valid' if plan.elements == 1 else 'all valid'}"
    return f"{text}, {received:,} of them valid"


def prefix_hints(faults: Iterable[UrlFault], urlprefix: str) -> list[str]:
    """Hints about the URL prefix, if it may be why URLs were refused."""
    if not urlprefix:
        bad = code_of("bad-url")
        if any(fault.code == bad and fault.text.endswith("no scheme") for fault in faults):
            return ["hint: these names are not absolute URLs; set their prefix: --urlprefix http://site/"]
    elif not _begins_path(urlprefix):
        return [f"hint: --urlprefix is prepended unchanged to each name; did you mean {urlprefix}/ with a slash?"]
    return []


def _begins_path(urlprefix: str) -> bool:
    """Whether a name put behind it does not become part of a host's; behind ``http://`` names bring their hosts."""
    try:
        parts = urlsplit(urlprefix)
    except ValueError:
        return True
    return bool(parts.path or not parts.netloc)


CODES_ADVISED = 5
"""So many kinds of errors are explained at once."""


def what_to_do(faults: Iterable[UrlFault], most: int) -> Iterator[str]:
    """The next step for each kind of error among those that are shown, the first few kinds.

    :param most: so many are shown.
    """
    codes = dict.fromkeys(fault.code for fault in islice(faults, most))
    for code in islice(codes, CODES_ADVISED):
        yield f"next, for {code}: {advice(code)}"


def fault_lines(faults: Sequence[UrlFault], total: int, most: int) -> Iterable[str]:
    """Error containers, a line each; the first ``most`` of them.

    :param total: how many there are in truth.
    """
    for fault in faults[:most]:
        url = fault.url or fault.attributes.get("f") or fault.attributes.get("c") or fault.attributes.get("curl", "")
        yield f"  {fault.code} {printable(url, 300)}: {printable(fault.text, 300)}"
    shown = min(len(faults), most)
    if total > shown:
        yield f"  … and {total - shown:,} more" if shown else f"  {total:,}, not listed"
