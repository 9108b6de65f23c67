"""What lives here: the proof that every public method answers and refuses as it should, on every store.
What never does: what a method answers (api_cases_of_settings, api_cases_of_use, cost_cases).
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from support.integration import api_cases_of_settings, api_cases_of_use
from support.integration.api_case import ApiCase
from support.integration.call_log import public_methods, watch
from support.integration.clocks import START_MS
from support.integration.cost_cases import ANSWERING, answers_and_refuses
from support.integration.cost_setup import Place
from support.integration.harness import Harness
from support.integration.proxy import Fault, between
from zae_limiter import RateLimiter
from zae_limiter.engines.dynamodb.consumed import COUNTED
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.sqlite.table import SQLiteTable
from zae_limiter.operations.errors import Unreachable
from zae_limiter.testing import ManualClock

pytestmark = [pytest.mark.needs("atomic"), pytest.mark.differs]

API_CASES = (*api_cases_of_settings.API_CASES, *api_cases_of_use.API_CASES)
OVER_A_TABLE = {"Repository.builder"}
NEVER_REFUSE = {
    "DrawLease.as_called",
    "DrawLease.has_price",
    "DrawLease.entity_id",
    "DrawLease.resource",
    "Lease.entity_id",
    "Lease.resource",
    "RateLimiter.close",
    "RateLimiter.limit",  # what it decorates does
    "Repository.builder",  # what it answers does
    "Repository.close",
    "Repository.get_cache_stats",
    "Repository.get_store_stats",
    "Repository.invalidate_config_cache",
    "Repository.name",
    "Repository.namespace_id",
    "Repository.ping",  # answers ``False``
}
Opened = Callable[[Harness], Awaitable[RateLimiter]]


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens a limiter whose store is away from then on."""
    with ExitStack() as proxies:

        async def opened(harness: Harness) -> RateLimiter:
            if harness.target.endpoint_url is None:
                limiter = await harness.open()
                monkeypatch.setattr(MemoryTable, "execute", away)
                monkeypatch.setattr(SQLiteTable, "execute", away)
                return limiter
            proxy = proxies.enter_context(between(harness.target.endpoint_url))
            limiter = await harness.open(endpoint_url=proxy.url)
            proxy.faults = [Fault("drop", name) for name in COUNTED]
            return limiter

        yield opened


def away(*_: Any) -> None:
    raise Unreachable("the store is away")


async def test_every_public_method_answers_and_refuses(
    harness: Harness, cut_off: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, clock = watch(harness.variant, monkeypatch), ManualClock(START_MS)
    for case in API_CASES:
        limiter = await harness.open(namespace=case.__name__, clock=clock)
        await case(ApiCase(harness, limiter, clock))
    for counted in ANSWERING:
        limiter = await harness.open(namespace=f"counted-{counted.method}".replace("_", "-"), clock=clock)
        await answers_and_refuses(counted, Place(harness, limiter, clock))
    await api_cases_of_use.without_the_store(ApiCase(harness, await cut_off(harness), clock))
    elsewhere = OVER_A_TABLE if harness.target.endpoint_url is None else set()
    assert public_methods() - notes.answered == elsewhere
    assert public_methods() - notes.refused == NEVER_REFUSE | elsewhere
