"""The rules of the queue in one object, for the store that asks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
from zope.interface import implementer

from lcc.config import QmConfig
from lcc.domain.fetches import outcome, retries, revalidation
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import url_key
from lcc.domain.mimetypes import ANY, MimePatterns
from lcc.domain.notices import absorb, deletions, quota, words
from lcc.domain.urls import Roots
from lcc.interfaces import IQueueRules
from lcc.model import Action, CachedState, Decision, Outcome, QueuedState, Quota, Standing, UrlNotice


@implementer(IQueueRules)
@attrs.frozen
class QueueRules:
    """The rules with their settings.

    :ivar attempts_max: fetches of one URL before a retryable error becomes final.
    :ivar hold_attempts_max: the same for errors of the provider's site.
    :ivar timeslots: the LCC's period.
    :ivar retry_initial, retry_maximum: the first and the longest delay before a URL is tried again, in seconds.
    :ivar mimetypes: of content whose type nobody has told.
    :ivar mass_deletion_share, mass_deletion_floor: :func:`lcc.domain.notices.deletions.is_mass_deletion`.
    """

    attempts_max: int
    hold_attempts_max: int = 20
    timeslots: TimeSlots = attrs.field(factory=TimeSlots)
    retry_initial: float = 60.0
    retry_maximum: float = 3600.0
    mass_deletion_share: float = 0.5
    mass_deletion_floor: int = 100
    mimetypes: MimePatterns = MimePatterns([ANY])

    @classmethod
    def configured(
        cls, settings: QmConfig, timeslots: TimeSlots, mimetypes: MimePatterns | None = None
    ) -> QueueRules:
        """The rules with the settings of a configuration."""
        return cls(
            settings.attempts_max,
            settings.hold_attempts_max,
            timeslots,
            settings.retry_initial,
            settings.retry_maximum,
            settings.mass_deletion_share,
            settings.mass_deletion_floor,
            mimetypes or MimePatterns([ANY]),
        )

    def key(self, pid: int, curl: str, mimetype: str) -> bytes:
        return url_key(pid, curl, mimetype)

    def action(
        self, notice: UrlNotice, connseq: int, floor: int, queued: QueuedState | None, cached: CachedState | None
    ) -> Action:
        return absorb.decide(notice, connseq, floor, queued, cached)

    def decision(
        self,
        notice: UrlNotice,
        source: int,
        connseq: int,
        floor: int,
        page: Sequence[Standing],
        queued: QueuedState | None,
        cached: CachedState | None,
    ) -> Decision:
        return words.decide_among(notice, source, connseq, floor, page, queued, cached)

    def without_told(self, standing: Standing, connseq: int) -> tuple[int, Standing]:
        return words.without_told(standing, connseq)

    def outcome(
        self,
        code: int,
        generation: int,
        row_fetch: bool | None,
        row_generation: int,
        attempts: int,
        unreached: int = 0,
    ) -> Outcome:
        limits = (self.attempts_max, self.hold_attempts_max)
        return outcome.decide(code, generation, row_fetch, row_generation, attempts, unreached, *limits)

    def retry_time(self, attempts: int, key: bytes, now: int) -> float:
        return now + retries.delay_seconds(attempts, key, self.retry_initial, self.retry_maximum)

    def slot(self, hours: str, provider_hours: str, timezone: str, now: int) -> int:
        return self.timeslots.slot(hours, provider_hours, timezone, now)

    def over_quota(self, limits: Quota, is_new: bool, files: int, space_bytes: int, length: int | None) -> int:
        return quota.over_quota(limits, is_new, files, space_bytes, length)

    def is_mass_deletion(self, count: int, told: int) -> bool:
        return deletions.is_mass_deletion(count, told, self.mass_deletion_share, self.mass_deletion_floor)

    def prefixes(self, roots: Iterable[str]) -> tuple[str, ...]:
        return Roots(roots).prefixes

    def may_be_unchanged(self, notice: UrlNotice, cached: CachedState) -> bool:
        return revalidation.may_be_unchanged(notice, cached)

    def takes_type(self, mimetype: str) -> bool:
        return self.mimetypes.accepts(mimetype)

    def same_content(self, md5: str, size_bytes: int, stored_md5: str, stored_length: int | None) -> bool:
        return outcome.is_same_content(md5, size_bytes, stored_md5, stored_length)
