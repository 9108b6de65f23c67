"""What lives here: the proof that every public method answers and refuses as it should, on every store.
What never does: what a method answers (chapters_of_settings, chapters_of_use).
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import chapters_of_settings
import chapters_of_use
from clocks import ManualClock
from notes import public_methods, watch
from proxy import Fault, between
from scenes import Scene
from stage import Stage
from zae_limiter import RateLimiter
from zae_limiter.operations.capacity import COUNTED
from zae_limiter.operations.errors import Unreachable

pytestmark = pytest.mark.needs("atomic")

CHAPTERS = (*chapters_of_settings.CHAPTERS, *chapters_of_use.CHAPTERS)
OVER_A_TABLE = {"Repository.open", "Repository.builder"}
NEVER_REFUSE = {
    "RateLimiter.close",
    "Repository.builder",  # what it answers does
    "Repository.close",
    "Repository.get_cache_stats",
    "Repository.get_store_stats",
    "Repository.invalidate_config_cache",
    "Repository.name",
    "Repository.namespace_id",
    "Repository.ping",  # answers ``False``
}
Opened = Callable[[Stage], Awaitable[RateLimiter]]


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens a limiter whose store is away from then on."""
    with ExitStack() as proxies:

        async def opened(stage: Stage) -> RateLimiter:
            if stage.target.endpoint_url is None:
                limiter = await stage.open()
                monkeypatch.setattr(stage._memory, "execute", away)
                return limiter
            proxy = proxies.enter_context(between(stage.target.endpoint_url))
            limiter = await stage.open(endpoint_url=proxy.url)
            proxy.faults = [Fault("drop", name) for name in COUNTED]
            return limiter

        yield opened


def away(_: Any) -> None:
    raise Unreachable("the store is away")


async def test_every_public_method_answers_and_refuses(
    stage: Stage, cut_off: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, clock = watch(stage.colour, monkeypatch), ManualClock()
    for chapter in CHAPTERS:
        limiter = await stage.open(namespace=chapter.__name__, clock=clock)
        await chapter(Scene(stage, limiter, clock))
    await chapters_of_use.without_the_store(Scene(stage, await cut_off(stage), clock))
    elsewhere = OVER_A_TABLE if stage.target.endpoint_url is None else set()
    assert public_methods() - notes.answered == elsewhere
    assert public_methods() - notes.refused == NEVER_REFUSE | elsewhere
