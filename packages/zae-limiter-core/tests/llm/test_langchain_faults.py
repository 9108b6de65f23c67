"""LangChain's callback where a model lies about its usage, or breaks off, or is given up, midway."""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed: `just test-llm newest` has it")
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.integrations.langchain import TokenLimits
from zae_limiter.integrations.tokens import estimate, floor

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of old releases of LangChain
    pytest.mark.filterwarnings("ignore:.*is in beta"),
]
PLACE: Any = {"entity_id": "ann", "resource": "model"}
PROMPT, TEXT = "x" * 40, "x" * 4000
ESTIMATE = estimate({"max_tokens": 100, "messages": [{"role": "human", "content": PROMPT}]})
MOST = 10_000_000  # what one answer is settled for, whatever it claims
LIES: list[Any] = [-5, 0, None, "30", "x", True, math.nan, [1], {}, -(10**40), math.inf]
NO_USAGES: list[Any] = [{}, "30", 30, [30]]
HUGE: list[Any] = [10**40, 2**63]
V3 = hasattr(BaseCallbackHandler, "on_stream_event")  # streams of events, in newer releases


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(
        SyncRepository.in_memory(), default_limits=[Limit.per_day("rpm", 5), Limit.per_day("tpm", 1000)]
    )


@pytest.mark.parametrize(
    ("usage", "used"),
    [
        *(({"total_tokens": lie}, ESTIMATE) for lie in LIES),
        *(({"total_tokens": lie}, MOST) for lie in HUGE),
        ({"total_tokens": 30.0}, 30),
        ({"input_tokens": 10, "output_tokens": 20}, 30),
        *((usage, ESTIMATE) for usage in NO_USAGES),
    ],
    ids=repr,
)
def test_a_usage_without_sense_leaves_the_estimate_and_the_answer(
    limiter: SyncRateLimiter, usage: Any, used: int
) -> None:
    limits, run, message = TokenLimits(limiter, **PLACE), uuid4(), AIMessage("x")
    limits.on_chat_model_start({}, [[HumanMessage(PROMPT)]], run_id=run, invocation_params={"max_tokens": 100})
    generation = ChatGeneration(message=message)
    object.__setattr__(generation.message, "usage_metadata", usage)
    limits.on_llm_end(LLMResult.model_construct(generations=[[generation]]), run_id=run)
    assert limiter.available("ann", "model") == {"rpm": 4, "tpm": 1000 - used}


PARTS = {
    "empty": AIMessageChunk(""),
    "text": AIMessageChunk("one"),
    "thinking": AIMessageChunk([{"type": "thinking", "thinking": "one", "index": 0}]),
    "tool": AIMessageChunk(
        "", tool_call_chunks=[{"name": "look", "args": "{", "id": "1", "index": 0, "type": "tool_call_chunk"}]
    ),
}


class Breaking(BaseChatModel):  # type: ignore[misc]  # not installed for the type check
    """A model that sends one part and breaks off."""

    part: str
    streaming: bool = False

    @property
    def _llm_type(self) -> str:
        return "breaking"

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise ConnectionError

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=PARTS[self.part].model_copy())
        raise ConnectionError


def leave(model: Any) -> None:
    stream = model.stream(PROMPT)
    next(stream)
    stream.close()


async def each(stream: Any) -> None:
    async for _ in stream:
        pass


async def aleave(model: Any) -> None:
    stream = model.astream(PROMPT)
    await anext(stream)
    await stream.aclose()


async def events(model: Any) -> None:
    await each(await model.astream_events(PROMPT, version="v3"))


WAYS: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda model: model.invoke(PROMPT),
    "ainvoke": lambda model: asyncio.run(model.ainvoke(PROMPT)),
    "batch": lambda model: model.batch([PROMPT]),
    "stream": lambda model: list(model.stream(PROMPT)),
    "astream": lambda model: asyncio.run(each(model.astream(PROMPT))),
    "left": leave,
    "left on a loop": lambda model: asyncio.run(aleave(model)),
}
if V3:
    WAYS["events"] = lambda model: list(model.stream_events(PROMPT, version="v3"))
    WAYS["events on a loop"] = lambda model: asyncio.run(events(model))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", PARTS)
def test_a_call_whose_answer_has_begun_is_never_given_back(limiter: SyncRateLimiter, part: str, way: str) -> None:
    limits = TokenLimits(limiter, **PLACE, estimate=lambda request: ESTIMATE, refund="before_answer")
    streaming = {"streaming": True} if way in {"invoke", "ainvoke", "batch"} else {}
    with suppress(ConnectionError):
        WAYS[way](Breaking(part=part, callbacks=[limits], **streaming))
    assert limiter.available("ann", "model") == {"rpm": 4, "tpm": 1000 - ESTIMATE}


def test_a_call_that_fails_before_its_answer_is_given_back_and_each_attempt_counts(limiter: SyncRateLimiter) -> None:
    class Failing(Breaking):
        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            raise ConnectionError

    for refund, left in (("before_answer", 5), ("never", 3)):
        limits = TokenLimits(limiter, **PLACE, tokens=None, refund=refund)  # type: ignore[arg-type]
        model = Failing(part="text", callbacks=[limits])
        with pytest.raises(ConnectionError):
            model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke(PROMPT)
        assert limiter.available("ann", "model")["rpm"] == left


def test_fallbacks_take_the_tokens_of_their_own_callback(limiter: SyncRateLimiter) -> None:
    def limited(resource: str) -> Breaking:
        limits = TokenLimits(limiter, entity_id="ann", resource=resource, tokens=None)
        return Breaking(part="text", callbacks=[limits])

    with pytest.raises(ConnectionError):
        limited("model").with_fallbacks([limited("other")]).invoke(PROMPT)
    assert [limiter.available("ann", name)["rpm"] for name in ("model", "other")] == [4, 4]


def test_calls_of_tools_and_their_answers_are_texts_of_a_message(limiter: SyncRateLimiter) -> None:
    asked: list[Mapping[str, Any]] = []

    def noted(request: Mapping[str, Any]) -> int:
        asked.append(request)
        return 1

    limits = TokenLimits(limiter, **PLACE, estimate=noted)
    called = {"name": "look", "args": {"x": TEXT}, "id": "1"}
    raw = {"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": f'{{"x": "{TEXT}"}}'}}]}
    told = [AIMessage("", tool_calls=[called], additional_kwargs=raw), ToolMessage(TEXT, tool_call_id="1")]
    limits.on_chat_model_start({}, [told], run_id=uuid4(), invocation_params={"max_tokens": 0})
    assert 2 * len(TEXT) // 4 <= estimate(asked[0]) <= 2 * len(TEXT) // 4 + 100


LONG = {
    "text": AIMessageChunk(TEXT),
    "thinking": AIMessageChunk([{"type": "thinking", "thinking": TEXT, "index": 0}]),
    "tool": AIMessageChunk("", tool_call_chunks=[{"name": "look", "args": TEXT, "id": "1", "index": 0}]),
    "tool, told twice": AIMessageChunk(
        [{"type": "tool_use", "id": "1", "name": "look", "partial_json": TEXT}],
        tool_call_chunks=[{"name": "look", "args": TEXT, "id": "1", "index": 0}],
    ),
    "reasoning": AIMessageChunk([{"type": "reasoning", "reasoning": TEXT, "index": 0}]),
    "summary": AIMessageChunk([{"type": "reasoning", "summary": [{"type": "summary_text", "text": TEXT}]}]),
    "strings": AIMessageChunk([TEXT]),
    "code": AIMessageChunk([{"type": "code_interpreter_call", "code": TEXT}]),
    "tool of the provider": AIMessageChunk([{"type": "server_tool_call_chunk", "args": TEXT}]),
    "not standard": AIMessageChunk([{"type": "non_standard", "value": {"x": TEXT}}]),
    "image": AIMessageChunk([TEXT, {"type": "image", "base64": "iVBORw0K" * 1000, "mime_type": "image/png"}]),
    "reasoning content": AIMessageChunk("", additional_kwargs={"reasoning_content": TEXT}),
    "transcript": AIMessageChunk("", additional_kwargs={"audio": {"id": "a", "data": "x" * 8000, "transcript": TEXT}}),
    "function": AIMessageChunk("", additional_kwargs={"function_call": {"name": "look", "arguments": TEXT}}),
    "refusal": AIMessageChunk("", additional_kwargs={"refusal": TEXT}),
}


@pytest.mark.parametrize("way", ["stream", "astream", "left", "left on a loop", *(["events"] if V3 else [])])
@pytest.mark.parametrize("part", LONG)
def test_a_stream_that_is_left_has_used_its_request_and_what_came(
    monkeypatch: pytest.MonkeyPatch, part: str, way: str
) -> None:
    if way == "events" and part not in {"text", "tool", "reasoning", "strings", "image"}:
        pytest.skip("LangChain's events tell others when they are whole, and this stream breaks off before")
    monkeypatch.setitem(PARTS, "long", LONG[part])
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_day("tpm", 9000)])
    limits = TokenLimits(limiter, **PLACE, requests=None, estimate=lambda request: 1, refund="before_answer")
    with suppress(ConnectionError):
        WAYS[way](Breaking(part="long", callbacks=[limits]))
    least = floor({"messages": [{"role": "human", "content": PROMPT}]}) + len(TEXT) // 4
    assert least <= 9000 - limiter.available("ann", "model")["tpm"] <= least + 100
