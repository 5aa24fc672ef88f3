"""The output of ``lcc-admin why``: what :func:`lcc.insight.why.explain` found, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from lcc.domain.wording import duration, utc
from lcc.errors import entry_for
from lcc.insight.places import elsewhere_lines, place_text
from lcc.insight.push_words import say_pushes
from lcc.insight.records import CACHED
from lcc.storage.disk.content_paths import content_path

Record = Mapping[str, Any]
_TOLD = "told"
_QUOTAS = {1501: "file", 1502: "space"}


def say(answer: Record) -> Iterator[str]:
    """Lines of output; details are indented."""
    yield answer["url"]
    for line in say_pushes(answer.get("pushes", ())):
        yield f"  {line}"
    if not answer["providers"] and not any("pid" in each for each in answer.get("elsewhere", ())):
        yield "  no provider has a root for it (see lcc-admin provider list)"
    for line in elsewhere_lines(answer.get("elsewhere", ())):
        yield f"  {line}"
    for provider in answer["providers"]:
        for line in _provider(answer, provider):
            yield f"  {line}"


def _provider(answer: Record, provider: Record) -> Iterator[str]:
    if provider["root"]:
        yield f"belongs to provider {provider['pid']}, by its root {provider['root']}"
    else:
        yield f"outside the roots of provider {provider['pid']}: submissions of this URL are refused"
    place = provider.get("place")
    if place is not None:
        yield f"  {place_text(place)}"
    if provider["removed"]:
        yield "  the provider is being removed, with its queue and content"
    views = provider["views"]
    if not views:
        yield "  neither queued nor cached: never submitted, refused, or failed earlier"
        if answer["takes_nothing"]:
            yield f"  recent submissions may still be in the spool of a UNS: {answer['takes_nothing']}"
    for view in views:
        for line in _view(answer, provider, view):
            yield f"  {line}"
    if provider["full_set_wanted"] and not views:
        yield f"  the provider is asked for a full set ({provider['full_set_wanted']})"
    for error in provider["errors"]:
        entry = entry_for(error["code"])
        quota = _QUOTAS.get(error["code"])
        what = f"over the {quota} quota:" if quota else "failed for good with"
        named = "" if error["source"] == _TOLD else f" ({error['source']})"
        yield f"  {what} {error['code']} ({entry.name}), {time(error['time'])}{named}: {error['text']}"


def _view(answer: Record, provider: Record, view: Record) -> Iterator[str]:
    name = view["mimetype"] or "all views"
    cached, queued = view["cached"], view["queued"]
    if cached is not None:
        for number, line in enumerate(chain(_cached(answer, cached), _searched(cached))):
            yield f"{name}: {line}" if number == 0 else f"  {line}"
    if queued is not None:
        for number, line in enumerate(_queued(answer, provider, queued)):
            yield f"{name}: {line}" if number == 0 else f"  {line}"


def _cached(answer: Record, row: Record) -> Iterator[str]:
    confirmed = row["confirmed_time"]
    if row["state"] != CACHED:
        if not row["change"]:
            yield "not cached; superseded by a deletion or a newer set: older sets are ignored"
        elif confirmed is None:
            yield "deleted"
        else:
            yield f"deleted since {time(confirmed)}, change {row['change']}"
        return
    line = f"cached since {time(row['fetched_time'])}"
    if confirmed is not None:
        ago = duration(answer["time"] - confirmed)
        line += f", confirmed {time(confirmed)} ({ago} ago)" if confirmed != row["fetched_time"] else f" ({ago} ago)"
    yield line
    yield from _named(row)
    if row["fetched_fileid"] is None:
        yield "its content file was lost and is being fetched again"
    elif not row["here"]:  # its home folder may be another one there
        name = content_path(row["fetched_fileid"])
        yield f"in {name} in the content folder of machine {row['fetched_machineid']} (file {row['fetched_fileid']})"
    else:
        yield f"in {row['path']} on machine {row['fetched_machineid']} (file {row['fetched_fileid']})"
    yield f"{row['len']} bytes, md5 {row['md5'] or 'unknown'}, status {row['status']}, change {row['change']}"
    if _TOLD not in row["source"].split(","):
        return
    told = [f"{name} {row[f'told_{name}']}" for name in ("md5", "len", "mtime") if row[f"told_{name}"] is not None]
    yield f"the provider submitted {', '.join(told)}" if told else "the provider submitted no md5, length or time"


def _searched(row: Record) -> Iterator[str]:
    """Whether a search finds it, where there is one on this machine."""
    search = row.get("search")
    if search is not None:
        yield ": ".join(
            filter(None, (f"{'found' if search['found'] else 'not found'} by the search", search["reason"]))
        )


def _queued(answer: Record, provider: Record, row: Record) -> Iterator[str]:
    if row["fetching_on"] is not None:
        yield f"being fetched on machine {row['fetching_on']}, from {row['furl']}"
        return
    if row["operation"] == "nothing":
        yield "deleted after it was queued: its row is removed when its turn comes"
        yield _set(row)
        return
    yield f"queued, fetch URL {row['furl']}"
    yield from _named(row)
    yield _set(row)
    yield from _failures(row)
    if row["next_try"] is None:
        yield from _before(row)
        yield from _others(row)
    waits = list(_waits(answer, provider, row))
    yield from (f"waits: {reason}" for reason in waits)
    if not waits:
        yield "ready: fetched when its turn comes"


def _named(row: Record) -> Iterator[str]:
    """Who names it, if that is not its provider alone."""
    if row["source"] != _TOLD:
        yield f"named by: {row['source'].replace(',', ', ')}"


def _set(row: Record) -> str:
    if row["received_time"] is None:
        return f"its set {row['psetid']} is missing from the table of sets: run lcc-admin rebuild"
    kind = "full" if row["full_set"] else "partial"
    received = time(row["received_time"])
    return f"in set {row['psetid']} ({kind}, priority {row['priority']}), received {received}"


def _failures(row: Record) -> Iterator[str]:
    if row["attempts"]:
        yield f"{row['attempts']} of {row['attempts_max']} attempts failed"
    if row["unreached"]:
        yield f"{row['unreached']} of {row['unreached_max']} attempts did not reach its site"
    error = row["last_error"]
    if error is not None:
        text = entry_for(error["code"]).text
        detail = f": {error['text']}" if error["text"] else ""
        yield f"the last error was {error['code']} ({text}), {time(error['time'])}{detail}"
        yield ("it went to the end of its set" if row["next_try"] is None else "it will go to the end of its set")


def _before(row: Record) -> Iterator[str]:
    parts = []
    if row["before_in_set"]["number"]:
        parts.append(f"{counted(row['before_in_set'], 'row')} of its set")
    if row["sets_before"]["number"]:
        parts.append(f"{counted(row['rows_before'], 'row')} in {counted(row['sets_before'], 'earlier set')}")
    if parts:
        yield f"behind {', and '.join(parts)}"


def _others(row: Record) -> Iterator[str]:
    higher, earlier = row["sets_of_higher_priority"], row["earlier_sets_of_others"]
    parts = []
    if higher["number"]:
        parts.append(f"{counted(higher, 'set')} of higher priority")
    if earlier["number"]:
        parts.append(f"{counted(earlier, 'earlier set')} of the same{'' if parts else ' priority'}")
    if parts:
        yield f"other providers have {' and '.join(parts)}"


def _waits(answer: Record, provider: Record, row: Record) -> Iterator[str]:
    now = answer["time"]
    if row["opens"] is None:
        yield (
            f"its hours ({row['hours'] or 'any'}) never overlap the provider's ({provider['hours'] or 'any'});"
            " it fails when its turn comes"
        )
    elif row["opens"] > now:
        whose = f"its hours are {row['hours']}" if row["hours"] else f"the provider's hours are {provider['hours']}"
        if provider["timezone"]:
            whose += f" ({provider['timezone']})"
        slot = "" if row["slot"] is None else f" (slot {row['slot']})"
        yield f"{whose}; the next begin {until(row['opens'], now)}{slot}"
    elif row["slot"] is not None:
        yield f"its slot {row['slot']} has begun: the queue manager is about to load it"
    if row["next_try"] is not None:
        yield f"retry {until(row['next_try'], now)}"
    for machine in provider["awaited"]:
        yield (
            f"machine {machine['machine']} is disconnected, or robots hang there, and may still be fetching from the "
            f"provider, by order of an earlier queue manager; fetching resumes when it reconnects, or "
            f"{until(machine['until'], now)}"
        )
    if provider["being_fetched"]:
        yield "another URL of this provider is being fetched (one at a time)"
    if provider["waits_for"]:
        who = ", ".join(map(str, provider["waits_for"]))
        yield f"provider {who} of the same host has its turn (one of a host at a time: [qm] serial_by_host)"
    for delay in provider["delays"]:
        if delay["reason"] == "hours" and row["opens"] is not None and row["opens"] > now:
            continue  # that was said
        whose = "this provider" if delay["pid"] else "the whole LCC"
        why = delay["reason"]
        if why == "bandwidth":
            why = f"the bandwidth limit of {whose} is reached"
        elif why == "hours":
            why = f"the hours of {whose} are over or about to end"
        elif why == "interval":
            why = "the interval between fetches from this provider is not over"
        elif why == "retry-after":
            entry = entry_for(delay["code"])
            why = f"the provider's web server answered {delay['code']} ({entry.text}) and asked to be left alone"
        else:
            entry = entry_for(delay["code"])
            times = f"{delay['failures']} times in a row" if delay["failures"] > 1 else "once"
            why = f"the provider's site is unreachable: {delay['code']} ({entry.text}), {times}"
        yield f"{why}; retry {until(delay['until_time'], now)}"
    if answer["trouble"]:
        yield answer["trouble"]


def counted(count: Record, what: str) -> str:
    """``3 rows``, ``more than 10,000 rows``."""
    number = count["number"]
    if count["more"]:
        return f"more than {number:,} {what}s"
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def time(seconds: float | None) -> str:
    """A point in time."""
    return "-" if seconds is None else f"{utc(seconds)} UTC"


def until(seconds: float, now: float) -> str:
    """A point in time to come."""
    return f"at {time(seconds)}, in {duration(seconds - now)}"
