"""No bare ``int()`` or ``float()`` reads what a peer wrote: lcc/numbers.py does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.numbers import INT64_MAX, parse_number

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    "domain",
    "protocols",
    "fetchers",
    "transport",
    "client",
    "insight",
    "roles",
    "search",
    "provider",
    "export",
    "console",
)
"""Rooms in which words of peers are read.  What the storage reads was written here."""
CLOCKS = frozenset({"now", "_now", "seconds", "time", "timestamp", "_wall_clock", "wall_clock"})

NUMBERS = {
    # Numbers, not text.
    "client/packages.py: int(parse_sources(row['source']))",
    "roles/cu/query.py: int(sources)",
    "roles/qm/orders/dispatcher.py: int(Source.POLLED)",
    "roles/qm/orders/dispatcher.py: int(Source.TOLD)",
    "roles/qm/schedule/hours_filter.py: int(Source.POLLED)",
    "domain/notices/words.py: int(HINTS)",
    "domain/notices/words.py: int(SITE)",
    "domain/notices/words.py: int(Source.LISTED)",
    "domain/notices/words.py: int(Source.POLLED)",
    "domain/notices/words.py: int(Source.PUSHED)",
    "domain/notices/words.py: int(Source.TOLD)",
    "roles/uns/notifiers/connection.py: int(MAY_SAY[hello.role])",
    "roles/uns/notifiers/connection.py: int(UNORDERED)",
    "roles/uns/notifiers/connection.py: int(source)",
    "domain/spider/rules.py: float(settings.revisit_seconds)",
    "roles/spider/answers.py: int(self._told_wait_seconds)",
    "domain/fetches/timeslots.py: float(last)",
    "domain/urls.py: int(address.ipv4_mapped)",
    "domain/wording.py: int(seconds)",
    "fetchers/addresses.py: int(address)",
    "fetchers/file.py: int(state.st_mtime)",
    "fetchers/http_head.py: int(seconds)",
    "roles/web/plots.py: float(next((step * power for step in (1, 2, 5, 10) if step * power >= most * 0.999999)))",
    "roles/web/plots.py: int(value)",
    "insight/summary.py: int(now)",
    "roles/front.py: int(self.front.session_seconds)",
    "roles/web/pages/providers.py: int(now)",
    "provider/report.py: float(number)",
    "roles/qm/orders/dispatcher.py: float(max(0, message.lease_seconds))",
    "roles/qm/orders/dispatcher.py: int(lease_seconds)",
    "roles/qm/maintenance/delay_timer.py: float(timeslots.period_seconds)",
    "roles/qm/maintenance/retries.py: int(now)",
    "roles/qm/orders/recorder.py: int(now)",
    "roles/scheduler/engine.py: int(self.settings.lease)",
    "transport/http/client.py: int(response.code)",
    "transport/http/client.py: int(timeout_seconds)",
    "transport/links.py: float(self._policy(min(self._failures, 30)))",
    "transport/ports/connection_limits.py: int(found)",
    # Words of the operator's configuration.
    "transport/tls/endpoints.py: float(timeout)",
    "transport/tls/endpoints.py: int(backlog)",
    "transport/tls/endpoints.py: int(port)",
    # What this host, or a role of this LCC through the database, wrote: JSON numbers.
    "roles/cu/resourcesync.py: int(txn.value('SELECT files_used FROM pstats WHERE pid = ?', [source.pid], 0))",
    "export/guardian.py: int(leader)",
    "export/state.py: int(row[0])",
    "export/state.py: int(self._db.execute('SELECT COUNT(*) FROM pending').fetchone()[0])",
    "insight/qm_state.py: float(state.get('interval', 0))",
    "insight/qm_state.py: int(state['time'])",
    "roles/web/members.py: float(live.state['time'])",
    "roles/web/members.py: float(missed)",
    "roles/web/members.py: float(seen)",
    "roles/web/samples.py: float(seconds)",
    "roles/web/samples.py: float(state.get(name, 0))",
    "roles/web/samples.py: float(state['time'])",
    "roles/web/samples.py: float(time)",
    "roles/web/samples.py: float(value)",
    "insight/verdict.py: float(live.state['time'])",
    "insight/verdict.py: float(state['paused_since'])",
    "provider/hidden.py: int(fields[_ARG_END])",
    "provider/hidden.py: int(fields[_ARG_START])",
    # A few digits: a pattern has looked at them in the line before.
    "client/packages.py: int(octal[0], 8)",
    "domain/urls.py: int(text[1:], 16)",
    "fetchers/http_head.py: int(day)",
    "fetchers/http_head.py: int(digits)",
    "fetchers/http_head.py: int(year)",
    "protocols/uns_qm.py: int(length)",
    "protocols/uns_qm.py: int(time)",
}
"""Calls that are right."""


def calls(path: Path) -> Iterator[str]:
    """Calls of int() and float(), and map() with them, that are neither arithmetic nor of a clock."""
    name = path.relative_to(ROOT / "lcc")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in ("int", "float") and node.args:
            value = node.args[0]
            if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Constant)):
                continue
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in CLOCKS:
                continue
            yield f"{name}: {ast.unparse(node)}"
        elif ast.unparse(node).startswith(("map(int", "map(float")):
            yield f"{name}: {ast.unparse(node)}"


def test_numbers_of_peers_are_read_in_one_place() -> None:
    found = {call for room in ROOMS for path in (ROOT / "lcc" / room).rglob("*.py") for call in calls(path)}
    assert not found - NUMBERS, "read it with lcc.numbers.parse_number, or say here why it is no text of a peer"
    assert not NUMBERS - found, "these are no longer there"


@pytest.mark.parametrize("text", ["0", "7", "007", "9223372036854775807", "0" * 19 + "5"])
def test_numbers(text: str) -> None:
    assert parse_number(text, INT64_MAX) == int(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "-", "-0", "-1", "+1", " 1", "1 ", "1\n", "1_0", "1.0", "1e3", "0x1", "nan", "inf", "1e999"),
        *("٣", "\uff11", "²", "1\0", "9223372036854775808", "0" * 20 + "5", "9" * 5000, "0" * 5000),
    ],
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no whole number|is not from 0 to"):
        parse_number(text, INT64_MAX)


def test_bounds() -> None:
    assert parse_number("-7", 7, -7) == -7 and parse_number("7", 7, -7) == 7
    for text in ("-8", "8"):
        with pytest.raises(ValueError, match=r"is not from -7 to 7"):
            parse_number(text, 7, -7)
