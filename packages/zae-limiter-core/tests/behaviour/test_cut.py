"""Streams of language models that are cut at their limit: server-sent events and mappings, in both variants."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zae_limiter import (
    Draw,
    Limit,
    RateLimiter,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    TokenUsage,
    ValidationError,
)
from zae_limiter.integrations.cut import CutStream, SyncCutStream, events_of, sync_events_of
from zae_limiter.integrations.usage import documents
from zae_limiter.streams import Pieces, SyncPieces
from zae_limiter.testing import ManualClock

LIMITS = [Limit.custom("tokens", 60, kind="total")]
WORD = "eight by"  # 2 tokens, by four bytes each
USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}


def chunk(text: str, index: int = 0, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish_reason}
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def sent(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document)}\n\n"


def of_messages() -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {"role": "assistant", "usage": {"input_tokens": 10, "output_tokens": 1}}}
    for number in range(100):
        yield {"type": "content_block_start", "index": number, "content_block": {"type": "text", "text": ""}}
        for _ in range(10):
            yield {"type": "content_block_delta", "index": number, "delta": {"type": "text_delta", "text": WORD}}
        yield {"type": "content_block_stop", "index": number}


class Upstream:
    """Parts of a provider, in both variants, which can be closed, and break off."""

    def __init__(self, parts: list[Any], error: Exception | None = None) -> None:
        self._parts, self._error = parts, error
        self.closed = False
        self.read = 0

    def __iter__(self) -> Iterator[Any]:
        for part in self._parts:
            self.read += 1
            yield part
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[Any]:
        for part in self:
            await asyncio.sleep(0)
            yield part

    def close(self) -> None:
        self.closed = True


class Seen:
    """What a client got of a stream, and what is left of its limits."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.left: dict[str, int] = {}
        self.error: Exception | None = None
        self.cut: Any = None
        self.delivered = TokenUsage()

    def note(self, stream: CutStream[Any] | SyncCutStream[Any]) -> None:
        self.cut, self.delivered = stream.cut, stream.delivered

    def documents(self) -> list[Any]:
        return [each for part in self.parts for each in documents(part)]


def play_sync(
    upstream: Upstream, *, first: int, piece: int, reads: int, draws: Any = (), limits: Any = LIMITS, **options: Any
) -> Seen:
    limiter, seen = SyncRateLimiter(SyncRepository.in_memory(clock=ManualClock()), default_limits=limits), Seen()
    with suppress(OSError), limiter.acquire("ann", "m", {"tokens": first}, draws=draws) as lease:
        with SyncCutStream(upstream, SyncPieces(lease, {"tokens": piece}), **options) as stream:
            try:
                for part in stream:
                    seen.parts.append(part)
                    if len(seen.parts) == reads:
                        break
            except OSError as error:
                seen.error = error
        seen.note(stream)
    seen.left = limiter.available("ann", "m")
    return seen


async def play_async(
    upstream: Upstream, *, first: int, piece: int, reads: int, draws: Any = (), limits: Any = LIMITS, **options: Any
) -> Seen:
    limiter, seen = RateLimiter(Repository.in_memory(clock=ManualClock()), default_limits=limits), Seen()
    async with limiter.acquire("ann", "m", {"tokens": first}, draws=draws) as lease:
        async with CutStream(upstream, Pieces(lease, {"tokens": piece}), **options) as stream:
            try:
                async for part in stream:
                    seen.parts.append(part)
                    if len(seen.parts) == reads:
                        break
            except OSError as error:
                seen.error = error
        seen.note(stream)
    seen.left = await limiter.available("ann", "m")
    return seen


@pytest.fixture(params=["async", "sync"])
def play(request: pytest.FixtureRequest) -> Callable[..., Seen]:
    def play(upstream: Upstream, *, first: int = 20, piece: int = 16, reads: int = -1, **options: Any) -> Seen:
        chosen: Any = {"first": first, "piece": piece, "reads": reads, **options}
        return play_sync(upstream, **chosen) if request.param == "sync" else asyncio.run(play_async(upstream, **chosen))

    return play


@pytest.mark.parametrize("form", [dict, str, bytes])
def test_a_chat_ends_as_one_that_was_too_long(play: Callable[..., Seen], form: type) -> None:
    def made(document: dict[str, Any]) -> Any:
        return document if form is dict else sent(document) if form is str else sent(document).encode()

    upstream = Upstream([made(chunk(WORD)) for _ in range(100)])
    seen = play(upstream)
    *delivered, last = seen.documents()
    assert (delivered, seen.left) == ([chunk(WORD)] * 30, {"tokens": 0})  # 60 tokens, all of them
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    assert last["usage"] == {"prompt_tokens": 0, "completion_tokens": 60, "total_tokens": 60}
    assert (last["id"], last["rate_limit"]["reason"]) == ("c-1", "quota")
    assert last["rate_limit"]["detail"] == "tokens: 16 requested, 0 available, and no more come by themselves"
    assert (upstream.closed, upstream.read) == (True, 31)
    assert isinstance(seen.cut, RateLimitExceeded)
    if form is not dict:
        end = seen.parts[-1]
        assert (end if isinstance(end, str) else end.decode()) == "data: [DONE]\n\n"


def test_text_outside_whole_events_counts_by_its_bytes(play: Callable[..., Seen]) -> None:
    whole, marks = sent(chunk(WORD)), [": ping\n\n", "event: ping\nid: 7\n\n", "data: [DONE]\n\n"]
    halves = [half for _ in range(99) for half in (whole[:40], whole[40:])]
    seen = play(Upstream([whole, *marks, *halves]))
    assert (seen.parts[:4], seen.parts[-1]) == ([whole, *marks], "data: [DONE]\n\n")
    assert json.loads(seen.parts[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    assert seen.delivered.output <= 60 - seen.left["tokens"] <= 60
    delivered = sum(len(part) for part in seen.parts[4:-2])
    assert delivered <= 4 * 60


@pytest.mark.parametrize("form", [str, bytes])
def test_what_follows_a_whole_event_in_its_part_counts_by_its_bytes(play: Callable[..., Seen], form: type) -> None:
    text = sent(chunk(WORD)) + "data: " + "x" * 100
    seen = play(Upstream([text if form is str else text.encode(), ": the same line\n\n", ": ping\n\n"]))
    assert seen.delivered.output == 2 + -(-(106 + len(": the same line")) // 4)


def test_the_rest_of_a_line_is_no_comment(play: Callable[..., Seen]) -> None:
    seen = play(Upstream(['data: {"text"', f': "{WORD * 9}"}}\n\n', ": a comment\n\n"]))
    assert seen.delivered.output == -(-len(f'data: {{"text": "{WORD * 9}"}}') // 4)


@pytest.mark.parametrize("separator", ["\u2028", "\x85"])
def test_a_text_may_have_separators_of_lines(play: Callable[..., Seen], separator: str) -> None:
    event = f"data: {json.dumps(chunk(f'{WORD}{separator}'), ensure_ascii=False)}\n\n"
    assert play(Upstream([event])).delivered.output == 3
    raw = event.replace("\n", "\r\n").encode()
    assert list(sync_events_of([raw[at : at + 7] for at in range(0, len(raw), 7)])) == [event]


def test_each_open_choice_ends(play: Callable[..., Seen]) -> None:
    ended = chunk(WORD, 1, "stop")
    last = play(Upstream([chunk(WORD), ended, *(chunk(WORD, 2) for _ in range(99))])).documents()[-1]
    assert [(each["index"], each["finish_reason"]) for each in last["choices"]] == [(0, "length"), (2, "length")]


def test_a_completion_has_texts_in_place_of_deltas(play: Callable[..., Seen]) -> None:
    part = {"object": "text_completion", "choices": [{"index": 0, "text": WORD, "finish_reason": None}]}
    last = play(Upstream([part] * 99)).documents()[-1]
    assert last["choices"] == [{"index": 0, "text": "", "finish_reason": "length"}]


def test_messages_end_with_the_blocks_that_are_open(play: Callable[..., Seen]) -> None:
    found = play(Upstream([*of_messages()])).documents()
    assert [each["type"] for each in found[-4:]] == [
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert (found[-3]["index"], found[-2]["delta"]["stop_reason"]) == (2, "max_tokens")
    assert found[-2]["usage"] == {"output_tokens": 50}


def test_a_response_ends_incomplete_with_what_came(play: Callable[..., Seen]) -> None:
    call = {"id": "f-1", "type": "function_call", "name": "look", "arguments": "", "status": "in_progress"}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": WORD}
    parts = [
        {"type": "response.created", "sequence_number": 0, "response": {"id": "r-1", "status": "in_progress"}},
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": call},
        *({**delta, "sequence_number": number} for number in range(2, 99)),
    ]
    *_, done, last = play(Upstream(parts)).documents()
    assert done["item"] == {**call, "arguments": WORD * 30, "status": "incomplete"}
    response = last["response"]
    assert (response["status"], response["output"]) == ("incomplete", [done["item"]])
    assert (done["sequence_number"], last["sequence_number"]) == (32, 33)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["total_tokens"] == 60


@pytest.mark.parametrize("how", ["leaves", "breaks off"])
def test_what_was_delivered_is_settled(play: Callable[..., Seen], how: str) -> None:
    upstream = Upstream([chunk(WORD)] * 6, OSError("reset") if how == "breaks off" else None)
    seen = play(upstream, reads=4 if how == "leaves" else -1)
    words = 4 if how == "leaves" else 6
    assert (len(seen.parts), seen.left, upstream.closed) == (words, {"tokens": 60 - 2 * words}, True)
    assert (seen.error is not None, seen.cut) == (how == "breaks off", None)


def test_the_usage_of_the_provider_settles_exactly(play: Callable[..., Seen]) -> None:
    parts = [chunk(WORD), chunk(WORD, finish_reason="stop"), {"choices": [], "usage": USAGE}]
    seen = play(Upstream(parts), piece=2, first=2)
    assert (seen.parts, seen.left, seen.delivered.total) == (parts, {"tokens": 30}, 30)


async def test_the_usage_of_the_provider_settles_each_limit() -> None:
    limits = [Limit.custom(name, 100, kind="total") for name in ("tpm", "tpd")]
    limiter = RateLimiter(Repository.in_memory(), default_limits=limits)
    parts = Upstream([*(chunk(WORD) for _ in range(20)), {"choices": [], "usage": USAGE}])
    async with limiter.acquire("ann", "m", {"tpm": 1, "tpd": 1}) as lease:
        assert [each async for each in CutStream(parts, Pieces(lease, {"tpm": 8, "tpd": 8}))]
    assert await limiter.available("ann", "m") == {"tpm": 70, "tpd": 70}


def test_the_prompt_counts_until_the_provider_says(play: Callable[..., Seen]) -> None:
    request = {"messages": [{"role": "user", "content": "x" * 100}], "max_tokens": 10**6}
    seen = play(Upstream([chunk(WORD)] * 99), request=request)
    assert seen.delivered.input == 36  # its JSON
    assert seen.delivered.total == 60 - seen.left["tokens"]


def test_a_count_of_yours_counts(play: Callable[..., Seen]) -> None:
    seen = play(Upstream([chunk(WORD)] * 99), count=lambda document: len(document["choices"][0]["delta"]["content"]))
    assert seen.delivered.output == 56  # 7 parts of 8 characters


async def test_a_draw_of_money_cuts_a_stream() -> None:
    repository = Repository.in_memory(clock=ManualClock())
    await repository.set_limits("team", [Limit.money("usd", "0.001", per="month")], "budget")
    limiter = RateLimiter(repository, default_limits=[Limit.per_day("tpd", 10_000)])
    draw = Draw("team", "budget", {"usd": 100}, by_usage=lambda usage: {"usd": 7 * usage.output})
    async with limiter.acquire("ann", "m", {"tpd": 100}, draws=[draw]) as lease:
        pieces = Pieces(lease, {"tpd": 100}), Pieces(lease.draws[0], {"usd": 100})
        stream = CutStream(Upstream([chunk(WORD)] * 999), *pieces)
        parts = [part async for part in stream]
    assert isinstance(stream.cut, RateLimitExceeded)
    assert (stream.cut.refused_by, len(parts)) == ("team", 72)
    assert await limiter.available("team", "budget") == {"usd": 1000 - 7 * 142}
    assert await limiter.available("ann", "m") == {"tpd": 10_000 - 142}


async def test_a_stream_that_nobody_closes_is_settled_for_what_flowed() -> None:
    limiter = RateLimiter(Repository.in_memory(clock=ManualClock()), default_limits=LIMITS)
    async with limiter.acquire("ann", "m", {"tokens": 40}) as lease:
        stream = aiter(CutStream(Upstream([chunk(WORD)] * 9), Pieces(lease, {"tokens": 16})))
        await anext(stream)
    assert await limiter.available("ann", "m") == {"tokens": 58}
    await stream.aclose()  # type: ignore[attr-defined]  # behind its block: nothing is raised
    assert await limiter.available("ann", "m") == {"tokens": 58}


async def test_lines_become_whole_events() -> None:
    lines = ["event: a", "data: {}", "", ": ping", "", "data: [DONE]"]
    events = ["event: a\ndata: {}\n\n", ": ping\n\n", "data: [DONE]\n\n"]
    assert list(sync_events_of(lines)) == events
    assert [event async for event in events_of(Upstream(lines))] == events
    sent_as = "\n".join(lines).encode()
    assert [event async for event in events_of(Upstream([sent_as[:9], sent_as[9:]]))] == events


async def test_a_draw_without_pieces_is_settled_too() -> None:
    repository = Repository.in_memory(clock=ManualClock())
    await repository.set_limits("team", [Limit.money("usd", 1, per="month")], "budget")
    limiter = RateLimiter(repository, default_limits=LIMITS)
    draw = Draw("team", "budget", {"usd": 900}, by_usage=lambda usage: {"usd": 7 * usage.output})
    async with limiter.acquire("ann", "m", {"tokens": 40}, draws=[draw]) as lease:
        async for _ in CutStream(Upstream([chunk(WORD)] * 3), Pieces(lease, {"tokens": 16})):
            pass
    assert await limiter.available("team", "budget") == {"usd": 1_000_000 - 42}


def test_the_money_of_a_draw_cuts_a_stream_by_itself(play: Callable[..., Seen]) -> None:
    money = [Limit.money("usd", "0.0003", per="month")]
    draw = Draw("team", "budget", {"usd": 20}, by_usage=lambda usage: {"usd": 7 * usage.output}, limits=money)
    seen = play(Upstream([chunk(WORD)] * 99), draws=[draw])
    assert (seen.cut.refused_by, seen.delivered.output, seen.left) == ("team", 42, {"tokens": 18})
    assert seen.documents()[-1]["choices"][0]["finish_reason"] == "length"


async def test_a_limit_with_weights_needs_a_size() -> None:
    limits = [*LIMITS, Limit.per_day("weighed", 1000, weights={"output": 4})]
    limiter = RateLimiter(Repository.in_memory(clock=ManualClock()), default_limits=limits)
    async with limiter.acquire("ann", "m", {"tokens": 40}) as lease:
        with pytest.raises(ValidationError, match="name a size of weighed"):
            await anext(aiter(CutStream(Upstream([chunk(WORD)]), Pieces(lease, {"tokens": 16}))))


async def test_pieces_count_one_stream() -> None:
    async with RateLimiter(Repository.in_memory(), default_limits=LIMITS).acquire("ann", "m", {"tokens": 4}) as lease:
        pieces = Pieces(lease, {"tokens": 16})
        CutStream(Upstream([]), pieces)
        with pytest.raises(ValidationError, match=r"pieces \['tokens'\]: count another stream"):
            CutStream(Upstream([]), pieces)
    with SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS).acquire("a", "m", {"tokens": 4}) as held:
        of_thread = SyncPieces(held, {"tokens": 16})
        SyncCutStream([], of_thread)
        with pytest.raises(ValidationError, match=r"pieces \['tokens'\]: count another stream"):
            SyncCutStream([], of_thread)


# what a provider sends that is malformed

NAMES = (
    *("choices", "index", "delta", "finish_reason", "text", "content", "candidates", "usage", "id", "model", "object"),
    *("type", "message", "content_block", "response", "item", "item_id", "output_index", "content_index", "output"),
    *("sequence_number", "arguments", "status", "tool_calls", "chunk", "bytes", "prompt_tokens", "completion_tokens"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=4),
    max_leaves=12,
)
KINDS = (
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "ping"),
    *("response.created", "response.output_item.added", "response.output_item.done", "response.output_text.delta"),
    *("response.function_call_arguments.delta", "response.completed", "response.audio.delta"),
)
EVENTS = st.one_of(
    JSON,
    st.fixed_dictionaries({"choices": st.lists(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4), max_size=3)}),
    st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional={name: JSON for name in NAMES if name != "type"}),
    st.builds(chunk, st.text(max_size=30)),
)
LINES = st.one_of(EVENTS.map(json.dumps).map(lambda text: f"data: {text}\n\n".encode()), st.binary(max_size=40))


def split(raw: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(raw)) for place in places} | {len(raw)})
    return [raw[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def both(make: Callable[[], list[Any]], **options: Any) -> Seen:
    """What a client saw, the same in both variants."""
    seen = play_sync(Upstream(make()), first=0, piece=16, reads=-1, **options)
    other = asyncio.run(play_async(Upstream(make()), first=0, piece=16, reads=-1, **options))
    assert (seen.left, seen.delivered) == (other.left, other.delivered)
    assert repr(seen.parts) == repr(other.parts)  # NaN is not itself
    return seen


@settings(max_examples=40)
@given(st.lists(LINES, max_size=8), st.lists(st.integers(0, 400), max_size=8))
def test_any_bytes_in_any_split_arrive_as_they_were_sent(lines: list[bytes], places: list[int]) -> None:
    raw = b"".join(lines)
    seen = both(lambda: split(raw, places), limits=[Limit.custom("tokens", 10**6, kind="total")])
    assert (b"".join(seen.parts), seen.error, seen.cut) == (raw, None, None)
    if b"tokens" not in raw:
        assert seen.delivered.total <= -(-len(raw) // 4)
        assert 10**6 - seen.left["tokens"] == seen.delivered.total


@settings(max_examples=40)
@given(st.lists(LINES, max_size=8), st.lists(st.integers(0, 400), max_size=8))
def test_a_cut_delivers_what_was_counted_and_an_end(lines: list[bytes], places: list[int]) -> None:
    raw = b"".join([b"data: ", *lines, *([sent(chunk(WORD)).encode()] * 40)])
    seen = both(lambda: split(raw, places))
    if b"tokens" in raw:
        return
    assert isinstance(seen.cut, RateLimitExceeded)
    assert seen.delivered.total <= 60 - seen.left["tokens"] <= 60
    given = split(raw, places)
    common = next(n for n, part in enumerate(seen.parts) if part != given[n])
    assert all(part.startswith((b"event: ", b"data: ")) for part in seen.parts[common:])
    ends = [part for part in seen.parts[common:] if b"rate_limit" in part]
    assert [json.loads(end.partition(b"data: ")[2])["rate_limit"]["status"] for end in ends] == [429]


@settings(max_examples=40)
@given(st.lists(EVENTS.filter(lambda event: isinstance(event, dict)), max_size=8))
def test_events_of_any_shape_arrive_as_they_were_sent(events: list[Any]) -> None:
    seen = both(lambda: [*events], limits=[Limit.custom("tokens", 10**6, kind="total")])
    if "tokens" not in repr(events):
        assert (repr(seen.parts), seen.error) == (repr(events), None)
    seen = both(lambda: [*events, *([chunk(WORD)] * 40)])
    assert seen.cut is not None
    assert sum("rate_limit" in part for part in seen.parts) == 1


@settings(max_examples=40)
@given(st.text(max_size=99), st.lists(st.integers(0, 400), max_size=8))
def test_a_text_counts_however_it_is_split(text: str, places: list[int]) -> None:
    raw = f"data: {json.dumps(chunk(text), ensure_ascii=False)}\n\n".encode(errors="replace")
    seen = both(lambda: split(raw, places), limits=[Limit.custom("tokens", 10**6, kind="total")])
    assert -(-len(text.encode(errors="replace")) // 4) <= seen.delivered.output <= -(-len(raw) // 4)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([b"data: {}", b": ping", b"event: a", "data: \u2028é".encode(), b"\xff\xfe", b""])),
    st.data(),
)
def test_whole_events_are_those_of_the_bytes(lines: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(line + data.draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines)
    parts = split(raw, data.draw(st.lists(st.integers(0, 100))))
    text = raw.decode(errors="replace").replace("\r\n", "\n")
    assert "".join(sync_events_of(parts)).strip("\n") == text.strip("\n")
    assert all(event.endswith("\n\n") or event == "\n" for event in sync_events_of(parts))


@pytest.mark.parametrize("part", ["data: 5\n\n", {"choices": 5}, {"choices": {"delta": "x"}}, {"delta": {"x": [None]}}])
def test_a_stream_ends_as_its_api_does_whatever_is_refused(play: Callable[..., Seen], part: Any) -> None:
    texts = [{"type": "content_block_delta", "index": 0, "delta": {"text": WORD}}] * 30
    malformed = f"data: {'x' * 100}\n\n" if isinstance(part, str) else part | {"delta": "x" * 100}
    form = sent if isinstance(part, str) else dict
    last = play(Upstream([*map(form, texts), part, malformed])).documents()[-1]
    assert last == {"type": "message_stop"}


def test_a_count_that_fails_counts_by_bytes(play: Callable[..., Seen], caplog: pytest.LogCaptureFixture) -> None:
    seen = play(
        Upstream([chunk(WORD), {"choices": "x" * 40}] * 2), count=lambda event: len(event["choices"][0]["delta"])
    )
    assert (len(seen.parts), seen.delivered.output) == (4, 1 + 10 + 2 + 10)
    assert [each.getMessage() for each in caplog.records] == [
        "an event counts by its bytes: the count of a CutStream failed"
    ]
