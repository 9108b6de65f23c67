"""LangChain's calls that wait: on which thread, and which thread the ends of others need."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed: `just test-llm newest` has it")
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository, SyncRateLimiter, SyncRepository
from zae_limiter import ValidationError as Invalid
from zae_limiter.integrations.langchain import RequestLimiter, TokenLimits

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of old releases of LangChain
LIMITS = [Limit.per_day("rpm", 100), Limit.concurrent("parallel", 2)]
PLACE: Any = {"entity_id": "ann", "resource": "model"}
SECONDS = 0.05  # of a call


def sync_limiter(limits: list[Limit] = LIMITS) -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=limits)


def async_limiter(limits: list[Limit] = LIMITS) -> RateLimiter:
    return RateLimiter(Repository.in_memory(), default_limits=limits)


BOTH = pytest.mark.parametrize("make", [sync_limiter, async_limiter])
Make = Callable[..., SyncRateLimiter | RateLimiter]


async def left(limiter: SyncRateLimiter | RateLimiter) -> dict[str, int]:
    found = limiter.available("ann", "model")
    return await found if not isinstance(found, dict) else found


class Model(BaseChatModel):  # type: ignore[misc]  # not installed for the type check
    """A model that answers after a while, and counts its calls."""

    seconds: float = SECONDS
    asked: list[float] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "model"

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(time.monotonic())
        return ChatResult(generations=[ChatGeneration(message=AIMessage("hi"))])

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(self.seconds)
        return self._generate()


def limited(limiter: Any, **options: Any) -> TokenLimits:
    return TokenLimits(limiter, **PLACE, tokens=None, slots="parallel", **options)


async def a_thread_of_the_pool() -> float:
    """Return the seconds until the loop's pool has done work of another part of the program."""
    begun = time.monotonic()
    await asyncio.to_thread(lambda: None)
    return time.monotonic() - begun


@BOTH
async def test_callers_that_wait_for_slots_hold_no_thread_of_the_pool(make: Make) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    limiter, begun = make(), time.monotonic()
    model = Model(callbacks=[limited(limiter, max_wait=20.0)])
    calls = [asyncio.create_task(model.ainvoke("x")) for _ in range(12)]
    await asyncio.sleep(SECONDS / 2)
    assert await a_thread_of_the_pool() < 1
    await asyncio.gather(*calls)
    assert time.monotonic() - begun < 5
    assert (await left(limiter))["parallel"] == 2


@BOTH
async def test_a_call_that_is_cancelled_while_it_waits_takes_nothing(make: Make) -> None:
    limiter = make()
    limits = limited(limiter, max_wait=20.0)
    busy = [asyncio.create_task(Model(seconds=0.5, callbacks=[limits]).ainvoke("x")) for _ in range(2)]
    await asyncio.sleep(0.2)
    waiting = asyncio.create_task(Model(callbacks=[limits]).ainvoke("x"))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(*busy)
    end = time.monotonic() + 5
    while (found := await left(limiter)) != {"rpm": 98, "parallel": 2} and time.monotonic() < end:  # noqa: ASYNC110 - a thread gives back
        await asyncio.sleep(0.05)
    assert found == {"rpm": 98, "parallel": 2}


async def test_a_blocking_call_where_a_loop_runs_is_limited_and_a_ratelimiter_refuses_it() -> None:
    limiter = sync_limiter([Limit.per_day("rpm", 1)])
    model = Model(callbacks=[TokenLimits(limiter, **PLACE, tokens=None)])
    model.invoke("x")  # as in a notebook
    with pytest.raises(RateLimitExceeded):
        model.invoke("x")
    unserved = Model(callbacks=[TokenLimits(async_limiter(), **PLACE, tokens=None)])
    with pytest.raises(TypeError, match="use ainvoke, or give a SyncRateLimiter"):
        unserved.invoke("x")
    with pytest.raises(TypeError, match="use ainvoke, or give a SyncRateLimiter"):
        await asyncio.to_thread(unserved.invoke, "x")
    assert (len(model.asked), len(unserved.asked)) == (1, 0)


@BOTH
async def test_a_refusal_reaches_the_caller_and_the_answer_settles(make: Make) -> None:
    limiter = make()
    model = Model(callbacks=[TokenLimits(limiter, **PLACE, requests=None, tokens="rpm", estimate=lambda _: 60)])
    await model.ainvoke("x")
    with pytest.raises(RateLimitExceeded):
        await model.ainvoke("x")
    assert ((await left(limiter))["rpm"], len(model.asked)) == (40, 1)


async def test_a_hook_that_a_subclass_calls_has_the_form_of_its_caller() -> None:
    class Own(TokenLimits):
        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            await super().on_llm_end(*args, **kwargs)

    limiter = async_limiter()
    await Model(callbacks=[Own(limiter, **PLACE, tokens=None, slots="parallel")]).ainvoke("x")
    assert await left(limiter) == {"rpm": 99, "parallel": 2}


async def test_requests_that_wait_hold_no_thread_of_the_pool() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    requests = RequestLimiter(sync_limiter([Limit.per_second("rps", 2)]), **PLACE, consume={"rps": 1})
    waiting = [asyncio.create_task(requests.aacquire()) for _ in range(4)]
    await asyncio.sleep(0.1)
    assert await a_thread_of_the_pool() < 0.4
    assert await asyncio.gather(*waiting) == [True] * 4


@pytest.mark.parametrize("make", [RequestLimiter, TokenLimits])
def test_what_is_no_limiter_is_refused_at_once(make: Any) -> None:
    what = {"consume": {"rpm": 1}} if make is RequestLimiter else {}
    with pytest.raises(Invalid, match="must be a RateLimiter or a SyncRateLimiter"):
        make(SyncRepository.in_memory(), **PLACE, **what)
