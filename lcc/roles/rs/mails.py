"""What is written to those who register.  Plain text; the only words of strangers in it are checked ones."""

from __future__ import annotations

import time

from lcc.config import RsConfig
from lcc.model import Proves, Registration
from lcc.roles.rs.challenge import Challenge
from lcc.transport.mail import Mail

WHAT = {
    Proves.PROVIDER: "to be a content provider",
    Proves.ROOT: "for a further root",
    Proves.PASSWORD: "for a new password",
}


def utc(seconds: int) -> str:
    """A time for people."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def challenge_mail(challenge: Challenge, settings: RsConfig) -> Mail:
    """What was given out in step one."""
    registration = challenge.registration
    lines = [
        f"Someone, probably you, asked {WHAT[registration.kind]} at a Local Content Cache.",
        "If this was not you, ignore this mail: the request will expire.",
        "",
        f"1. Put a file named {registration.file} on the site, which contains only this line:",
        "",
        f"       {challenge.secret}",
        "",
        "   so that it is available at",
        "",
        *[f"       {url}" for url in challenge.urls],
        "",
        "2. Then have it checked:",
        "",
        f"       {settings.url}registration/{challenge.ticket}"
        if settings.url
        else f"       registration {challenge.ticket}, where you asked for it",
        "",
    ]
    if challenge.password:
        lines += [
            "The password of the provider, valid from then on:",
            "",
            challenge.password,
            "",
        ]
    lines.append(f"This expires at {utc(registration.expires)}.")
    return Mail(registration.contact, "Registration: a secret for your site", "\n".join(lines) + "\n")


def done_mail(registration: Registration, to: str) -> Mail:
    """What has come of it."""
    pid, folders = registration.pid, "\n".join(f"    {folder}" for folder in registration.folders)
    if registration.kind is Proves.PROVIDER:
        subject = f"Registration: you are provider {pid}"
        text = f"The site is registered at a Local Content Cache, as provider {pid}:\n\n{folders}\n"
    elif registration.kind is Proves.ROOT:
        subject = f"Provider {pid}: a further root"
        text = f"Provider {pid} has a further root at a Local Content Cache:\n\n{folders}\n"
    else:
        subject = f"Provider {pid}: a new password"
        text = (
            f"The password of provider {pid} at a Local Content Cache was replaced, by somebody who could put a file "
            f"on\n\n{folders}\n\nIf it was not you, tell the operator of the cache.\n"
        )
    return Mail(to, subject, text)
