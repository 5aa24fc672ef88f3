"""Options of feeds among the arguments of their tasks, and the input of built-in workers."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.model.feed_options import ANYWHERE, SAME_HOST, FeedOptions, feed_args, lists_its_site, read_feed_args
from lcc.model.polled import PolledContent
from lcc.model.tasks import INPUT_BYTES_MAX, JobSpec

URL = "http://a/feed"
OPTIONS = st.builds(
    FeedOptions,
    plugin=st.text(min_size=1, max_size=9),
    full_content=st.booleans(),
    links=st.sampled_from([SAME_HOST, ANYWHERE]),
    listed=st.booleans(),
    allow_private=st.booleans(),
    own=st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(max_size=5), max_size=3).map(
        lambda own: tuple(own.items())
    ),
)


@given(OPTIONS)
def test_options_come_back(options: FeedOptions) -> None:
    assert read_feed_args(feed_args(URL, options)) == (URL, options)


def test_the_usual_feed_has_its_url_only() -> None:
    assert feed_args(URL, FeedOptions()) == (URL,)
    assert feed_args(URL, FeedOptions(full_content=True, links=ANYWHERE)) == (
        *(URL, "--full-content", "--links", "anywhere"),
    )


@pytest.mark.parametrize(
    ("spec", "lists"),
    [
        (JobSpec("sitemap", args=(URL,)), True),
        (JobSpec("feed", args=(URL, "--full-content", "--listed")), True),
        (JobSpec("feed", args=(URL, "--full-content")), False),
        (JobSpec("feed", args=(URL, "--plugin", "--listed")), False),
        (JobSpec("feed", args=(URL, "--listed", "nonsense")), False),
        (JobSpec("feed", "command", args=(URL, "--listed")), False),
        (JobSpec("sitemap", "command", args=(URL,)), False),
        (JobSpec("robots", args=(URL, "--listed")), False),
        (JobSpec("command", "x", args=(URL, "--listed")), False),
    ],
)
def test_who_speaks_for_its_site(spec: JobSpec, lists: bool) -> None:
    assert lists_its_site(spec) is lists


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "first argument is its URL"),
        (("--plugin", "x"), "first argument"),
        ((URL, "--plugin"), "--plugin needs a value"),
        ((URL, "--links", "all"), "same-host or anywhere"),
        ((URL, "--option", "x"), "NAME=VALUE"),
        ((URL, "more"), "no option 'more'"),
    ],
)
def test_options_that_make_no_sense(args: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_feed_args(args)


CONTENT = PolledContent(URL, 1, 2, 3, "ab" * 16, "cd" * 20, "http://b/", "text/xml; charset=utf-8")


def test_the_input_of_a_built_in_worker() -> None:
    assert PolledContent.from_json(CONTENT.to_json()) == CONTENT
    assert "base" not in json.loads(attrs.evolve(CONTENT, base="").to_json())
    values = {**json.loads(CONTENT.to_json()), "later": 1}
    assert PolledContent.from_values(values) == CONTENT
    long = attrs.evolve(CONTENT, url="http://a/" + "x" * 4000, base="http://b/" + "x" * 4200)
    assert len(long.to_json()) <= INPUT_BYTES_MAX and PolledContent.from_json(long.to_json()).base == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"url": 7}', CONTENT.to_json().replace("3,", "-3,"), "[" * 9999])
def test_input_that_makes_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match="the job's input"):
        PolledContent.from_json(text)
