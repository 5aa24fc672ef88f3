"""What changed on a site: the differences, the state file, and answers that were lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.provider.site_diff import Difference, MassDelete, SiteFault, compare
from lcc.provider.statefile import StateBusy, StateDamaged, StateFile, StateWriter, read_entries, told_digest

Site = dict[tuple[str, str], str]
SITES = st.dictionaries(
    st.tuples(st.text('ab\n\t"é&', min_size=1, max_size=2), st.sampled_from(["text/html", "text/xml", ""])),
    st.sampled_from(["1", "2", "3"]),
    max_size=12,
)
quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def elements(site: Site) -> list[dict[str, str]]:
    """The containers of a site."""
    return [{"c": curl, "m": mimetype, "md5": md5} if mimetype else {"c": curl, "md5": md5}
            for (curl, mimetype), md5 in site.items()]  # fmt: skip


def run(state: StateFile, site: Site, token: str = "t", **options: bool) -> tuple[list[dict[str, str]], Difference]:
    """One run of lcccpstate, as far as the pending state."""
    sent: list[dict[str, str]] = []
    state.adopt_pending(token)
    writer = StateWriter(state.pending, token)
    options.setdefault("allow_mass_delete", True)
    try:
        difference = compare(state, elements(site), writer, sent.append, now=0, **options)
    except Exception:
        writer.abandon()
        raise
    writer.close()
    return sent, difference


def apply(cache: Site, sent: list[dict[str, str]], full: bool = False) -> Site:
    """What an LCC makes of a set."""
    result = {} if full else dict(cache)
    for element in sent:
        key = (element["c"], element.get("m", ""))
        if element.get("op") == "delete":
            result.pop(key, None)
        else:
            result[key] = element["md5"]
    return result


@quick
@given(sites=st.lists(st.tuples(SITES, st.booleans()), max_size=4))
def test_the_differences_lead_from_site_to_site(tmp_path: Path, sites: list[tuple[Site, bool]]) -> None:
    state = StateFile(tmp_path / "state")
    state.path.unlink(missing_ok=True)
    state.pending.unlink(missing_ok=True)
    cache: Site = {}
    for site, full in sites:
        sent, difference = run(state, site, full=full)
        assert difference.total == len(site)
        if not full:
            assert len(sent) == difference.added + difference.changed + difference.deleted
            assert len(sent) == sum(cache.get(key) != site.get(key) for key in cache.keys() | site.keys())
        cache = apply(cache, sent, full)
        assert cache == site
        assert state.commit("t", full)


@quick
@given(steps=st.lists(st.tuples(SITES, st.sampled_from(["accepted", "rejected", "lost-taken", "lost"])), max_size=6),
       last=SITES)  # fmt: skip
def test_lost_answers_are_made_good(tmp_path: Path, steps: list[tuple[Site, str]], last: Site) -> None:
    """Whatever became of earlier sets, accepting one leaves the LCC with the site."""
    state = StateFile(tmp_path / "state")
    state.path.unlink(missing_ok=True)
    state.pending.unlink(missing_ok=True)
    cache: Site = {}
    for number, (site, fate) in enumerate(steps):
        token = f"t{number}"
        sent, _ = run(state, site, token)
        if fate in ("accepted", "lost-taken"):
            cache = apply(cache, sent)
        if fate == "accepted":
            assert state.commit(token, False)
            assert cache == site
        elif fate == "rejected":
            state.discard(token)
    sent, _ = run(state, last, "last")
    assert apply(cache, sent) == last


def test_nothing_changed_is_nothing_sent(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    site = {("a", "text/html"): "1"}
    run(state, site)
    state.commit("t", False)
    assert run(state, site) == ([], Difference(1, 0, 0, 0, 0))


def test_spelling_and_order_are_no_change() -> None:
    assert told_digest({"curl": "a", "m": "b"}) == told_digest({"mimetype": "b", "c": "a"})
    assert told_digest({"c": "a", "m": "b"}) != told_digest({"c": "b", "m": "a"})


def ten(count: int = 10) -> Site:
    return {(f"p{number}", "text/html"): "1" for number in range(count)}


@pytest.mark.parametrize("full", [False, True])
def test_mass_deletion_needs_a_word(tmp_path: Path, full: bool) -> None:
    state = StateFile(tmp_path / "state")
    run(state, ten())
    state.commit("t", False)
    run(state, ten(5), allow_mass_delete=False, full=full)
    with pytest.raises(MassDelete, match="6 of 10"):
        run(state, ten(4), allow_mass_delete=False, full=full)
    assert len(list(state.entries())) == 10
    _, difference = run(state, ten(4), full=full)
    assert difference.deleted == 6


@pytest.mark.parametrize("full", [False, True])
def test_a_small_site_may_shrink_but_not_vanish(tmp_path: Path, full: bool) -> None:
    state = StateFile(tmp_path / "state")
    assert run(state, {}, allow_mass_delete=False, full=full)[1].total == 0
    run(state, ten(9))
    state.commit("t", False)
    with pytest.raises(MassDelete, match="all 9"):
        run(state, {}, allow_mass_delete=False, full=full)
    assert run(state, ten(1), allow_mass_delete=False, full=full)[1].deleted == 8
    assert run(state, {}, full=full)[1].deleted == 9


def test_repeated_and_deleting_and_nameless_elements(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    writer = StateWriter(state.pending, "t")
    sent: list[dict[str, str]] = []
    site = [{"c": "a", "m": "t/h", "md5": "1"}, {"c": "a", "m": "t/h", "md5": "2"}, {"c": "b", "op": "delete"}]
    assert compare(state, site, writer, sent.append, now=0).repeated == 1
    assert sent == site[:1]
    with pytest.raises(SiteFault, match="container 1 has no conceptual URL"):
        compare(state, [{"m": "t/h"}], writer, sent.append, now=0)
    writer.abandon()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "other\n", "lcc-state 1 t\n", 'lcc-state 1 t\nab ["a"]\nend 1\n',
                                  "lcc-state 1 t\nend 1\n", "lcc-state 1 t\nend 0\nmore\n",
                                  "lcc-state 1 t\nab {\nend 1\n", "lcc-state 1 t\n\xff"])  # fmt: skip
def test_a_damaged_state_is_noticed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(StateDamaged):
        list(read_entries(path))
    state = StateFile(path)
    with pytest.raises(StateDamaged):
        run(state, ten())
    assert len(run(state, ten(), full=True)[0]) == 10
    assert state.commit("t", True)
    assert len(list(state.entries())) == 10


def test_two_runs_at_once(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    with state.locked(), pytest.raises(StateBusy), StateFile(tmp_path / "state").locked():
        pass
    with state.locked():
        pass


def test_only_its_own_pending_state_is_put_in_place(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    assert not state.commit("t", False)
    run(state, ten(), "mine")
    assert not state.commit("other", False)
    state.discard("other")
    assert state.pending_token() == "mine"
    state.discard("mine")
    assert state.pending_token() == ""


def test_a_wanted_full_set_is_noted_until_it_was_accepted(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    assert state.full_set_wanted() == ""
    state.note_full_set_wanted("old-files")
    assert state.full_set_wanted() == "old-files"
    run(state, ten())
    state.commit("t", False)
    assert state.full_set_wanted() == "old-files"
    run(state, ten(), full=True)
    state.commit("t", True)
    assert state.full_set_wanted() == ""
