"""What step one gives out."""

from __future__ import annotations

import attrs

from lcc.domain.registration.sites import file_in
from lcc.model import Registration


@attrs.frozen
class Challenge:
    """What is given out once, and stored nowhere but as hashes.

    :ivar ticket: shown by who asked, to go on.
    :ivar secret: what the file has to hold.
    :ivar password: of the provider, from the proof on; empty: its password stays.
    """

    registration: Registration
    ticket: str = attrs.field(repr=False)
    secret: str = attrs.field(repr=False)
    password: str = attrs.field(repr=False)

    @property
    def urls(self) -> list[str]:
        """Where the file has to be."""
        return file_urls(self.registration)


def file_urls(registration: Registration) -> list[str]:
    """Where the file has to be."""
    return [file_in(folder, registration.file) for folder in registration.folders]
