"""What doc/internal-wires.md says is what the code does."""

from __future__ import annotations

from pathlib import Path

from lcc.protocols import jobs, notifiers, uns_qm, work

VOCABULARIES = (
    *(uns_qm.FROM_UNS, uns_qm.FROM_QM),
    *(notifiers.FROM_NOTIFIER, notifiers.FROM_PORT),
    *(work.DOWN, work.UP, jobs.DOWN, jobs.UP),
)
TEXT = (Path(__file__).parents[2] / "doc" / "internal-wires.md").read_text(encoding="utf-8")


def test_every_message_is_explained() -> None:
    for vocabulary in VOCABULARIES:
        for tag in vocabulary._kinds:
            assert f"| `{tag}` |" in TEXT or f"`<{tag}/>`" in TEXT
