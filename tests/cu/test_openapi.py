"""The OpenAPI document: valid, and of the interface as it is (every other test holds its replies against it)."""

from __future__ import annotations

import pytest
import pytest_twisted
from openapi_spec_validator import validate

from lcc.roles.cu.query import FIELDS
from tests.support.cache import Cache
from tests.support.databases import Backend
from tests.support.openapi import described
from tests.support.roles.content_users import Api

SAMPLES = {
    "since": "0",
    "provider": "1",
    "key": "00" * 20,
    "mimetype": "text/*",
    "prefix": "http://a/",
    "subtype": "a:b",
    "source": "listed",
    "buckets": "0-7",
    "limit": "1",
    **{f"{what}_{when}": "2026-01-01" for what in ("fetched", "modified") for when in ("from", "before")},
    "wait": "0",
    "format": "jsonl",
}


def test_it_is_valid() -> None:
    validate(described())


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_it_is_served_without_a_token(backend: Backend) -> None:
    api = Api(backend, 'without_token = "nothing"')
    try:
        served = (await api.get("/openapi.json")).json()
    finally:
        await api.stop()
    served["info"]["version"] = "1"
    assert served == described()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_every_parameter_that_is_described_is_taken(api: Api, cache: Cache) -> None:
    cache.put(1, "http://a/")
    for path, always in (("/urls", ""), ("/changes", ""), ("/package", "kind=tar&")):
        names = {parameter["name"] for parameter in described()["paths"][path]["get"]["parameters"]}
        assert names >= set(FIELDS) - {"since"}
        for name in names - {"kind"}:
            assert (await api.get(f"{path}?{always}{name}={SAMPLES[name]}")).status == 200, name
