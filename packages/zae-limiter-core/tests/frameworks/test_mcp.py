"""Limits of MCP's tools, in servers of the official SDK and of FastMCP, with their own clients."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp", reason="fastmcp is not installed: `just test-frameworks newest` has it")
import anyio
import fastmcp
import httpx2
from fastmcp.exceptions import ToolError
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from support.core.web.serving import Served, serving
from zae_limiter import Draw, RateLimiter, RateLimitExceeded, Repository, ValidationError
from zae_limiter.integrations import fastmcp as of_fastmcp
from zae_limiter.integrations import mcp as of_sdk
from zae_limiter.integrations.mcp import ToolCall, ToolGuard, consume, lease_of, refused, settle
from zae_limiter.integrations.tool_calls import entity_of, in_words, principal
from zae_limiter.testing import ManualClock

COSTS: Mapping[str, Any] = {
    "search": {"calls": 1, "usd": "$0.40"},
    "fetch": {"calls": 1},
    "render": {"calls": 1, "jobs": 1},
    "crash": {"calls": 1, "usd": "$0.10", "jobs": 1},
    "export": lambda call: {"calls": 1, "usd": Decimal(call.arguments["rows"]) / 100},
    "help": {},
}
LIMITS = ["calls: 4/min", "usd: $1/day UTC", "jobs: 1 concurrent"]
LIBRARIES = ["sdk", "sdk-legacy", "fastmcp"]
Call = Callable[..., Any]


class Tools:
    """Tools whose progress a test decides."""

    def __init__(self) -> None:
        self.began, self.may_end = anyio.Event(), anyio.Event()
        self.done: list[str] = []

    async def search(self, query: str) -> str:
        """Look something up, for less than was estimated."""
        await settle(usd="$0.25")
        return query

    async def fetch(self, page: str) -> str:
        """Read a page."""
        self.done.append(page)
        return page

    async def render(self) -> str:
        """Work until the test lets it end."""
        self.began.set()
        await self.may_end.wait()
        return "rendered"

    async def crash(self, used: str = "") -> str:
        """Work for ever, or fail."""
        if used:
            await settle(usd=used)
            self.began.set()
            await anyio.sleep_forever()
        raise ConnectionError("away")

    async def export(self, rows: Any) -> str:
        """Cost what its arguments say."""
        return f"{rows} rows"

    async def help(self) -> str:
        """Cost nothing."""
        with pytest.raises(LookupError):
            lease_of()
        return "help"

    async def more(self) -> Any:
        """Need more than there is, midway."""
        await consume(calls=2)
        await consume(calls=2)


class Tooled:
    """A server in this process, its limiter and its tools."""

    def __init__(self, library: str, limiter: RateLimiter, **options: Any) -> None:
        self.library, self.limiter, self.tools = library, limiter, Tools()
        options = {"costs": COSTS, **options}
        names = ("search", "fetch", "render", "crash", "export", "help", "more")
        if library == "fastmcp":
            self.server: Any = fastmcp.FastMCP("tools")
            self.server.add_middleware(of_fastmcp.ToolLimits(limiter, **options))
            for name in names:
                self.server.tool(getattr(self.tools, name))
        else:
            self.server = MCPServer("tools", middleware=[of_sdk.ToolLimits(limiter, **options)])
            for name in names:
                self.server.add_tool(getattr(self.tools, name))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Any]:
        if self.library == "fastmcp":
            async with fastmcp.Client(self.server) as client:
                yield client
        else:
            async with Client(self.server, mode="legacy" if self.library == "sdk-legacy" else "auto") as client:
                yield client

    async def call(self, tool: str, client: Any = None, /, **arguments: Any) -> CallToolResult:
        if client is None:
            async with self.client() as client:
                return await self.call(tool, client, **arguments)
        ask = client.call_tool_mcp if self.library == "fastmcp" else client.call_tool
        result = await ask(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def left(self, entity: str = "anonymous", resource: str = "mcp") -> dict[str, int]:
        return await self.limiter.available(entity, resource)

    async def left_at_the_end(self) -> dict[str, int]:
        """What is left when the slot is free: a client does not wait for the end of what it cancels."""
        async with self.limiter.acquire("anonymous", "mcp", {"jobs": 1}, max_wait=10):
            pass
        return await self.left()

    async def buckets(self) -> set[tuple[str, str]]:
        return {(each.entity_id, each.resource) for each in (await self.limiter.repository.list_buckets()).buckets}


@pytest.fixture
async def limiter() -> RateLimiter:
    limiter = RateLimiter(Repository.in_memory(clock=ManualClock()))
    await limiter.repository.set_resource_defaults("mcp", LIMITS)
    return limiter


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def served(library: str, limiter: RateLimiter) -> Tooled:
    return Tooled(library, limiter)


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert block.type == "text"
    return block.text


async def test_a_refusal_is_a_result_that_a_model_can_read(served: Tooled) -> None:
    async with served.client() as client:
        for _ in range(3):
            assert not (await served.call("search", client, query="q")).is_error
        result = await served.call("search", client, query="q")
        assert result.is_error is True
        assert text(result) == (
            "Not run: the limit usd of this user is spent ($0.25 of $1 left, $0.40 needed). "
            "Wait 1 hour 46 minutes (6400 seconds), then make the same call again; until then it is refused. "
            "You may call now: fetch, help."
        )
        assert result.structured_content == {
            "error": "rate_limit_exceeded",
            "reason": "quota",
            "limit": "usd",
            "scope": "user",
            "available": 250_000,
            "requested": 400_000,
            "capacity": 1_000_000,
            "unit": "micro-usd",
            "retry_after_seconds": 6_400,
            "retry_after": "1 hour 46 minutes",
            "other_tools": ["fetch", "help"],
            "at_most": None,
        }
        assert not (await served.call("fetch", client, page="p")).is_error  # what it was told
        result = await served.call("fetch", client, page="q")
        assert text(result) == (
            "Not run: the limit calls of this user is used up for now (0 of 4 left, 1 needed). "
            "Wait 15 seconds, then make the same call again; until then it is refused. You may call now: help."
        )
    assert served.tools.done == ["p"]


async def test_lists_and_free_tools_are_not_limited(served: Tooled) -> None:
    async with served.limiter.acquire("anonymous", "mcp", {"calls": 4}), served.client() as client:
        assert (await served.call("fetch", client, page="p")).is_error
        assert await client.list_tools()
        assert text(await served.call("help", client)) == "help"


async def test_settled_amounts_count_in_all_buckets(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.set_resource_defaults("mcp/*", ["usd: $5/day UTC", "calls: 9/min"])
    served = Tooled(library, limiter, per=["tool"])
    assert not (await served.call("search", query="q")).is_error
    assert await served.left() == {"calls": 3, "usd": 750_000, "jobs": 1}
    assert await served.left(resource="mcp/search") == {"calls": 8, "usd": 4_750_000}


async def test_a_tools_own_limit_leaves_the_others(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.set_resource_defaults("mcp/*", ["calls: 1/min"])
    served = Tooled(library, limiter, per=["tool"])
    await served.call("fetch", page="p")
    result = await served.call("fetch", page="p")
    assert result.structured_content is not None
    assert result.structured_content["scope"] == "tool"
    assert result.structured_content["other_tools"] == ["help"]  # the others' money is not in this refusal
    assert not (await served.call("search", query="q")).is_error


async def test_a_group_is_refused_without_its_numbers(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.create_entity("acme-secret")
    await limiter.repository.set_limits("acme-secret", ["calls: 1/min"])
    await limiter.repository.create_entity("ann", parent_id="acme-secret", cascade=True)
    served = Tooled(library, limiter, user="ann")
    await served.call("fetch", page="p")
    result = await served.call("fetch", page="p")
    assert text(result).startswith("Not run: the limit calls of this group is used up for now. Wait 1 minute (60 sec")
    assert "acme" not in result.model_dump_json()
    assert "capacity" not in (result.structured_content or {})


async def test_a_smaller_call_is_offered(served: Tooled) -> None:
    result = await served.call("export", rows=120)
    assert text(result) == (
        "Not run: this call is larger than the limit usd of this user ever allows ($1 of $1 left, $1.20 needed). Do "
        "not repeat it: ask for less. You may call now: search, fetch, help. A smaller call fits: at most $1 of usd."
    )
    assert not (await served.call("export", rows=100)).is_error


@pytest.mark.parametrize("rows", ["many", -1, None, [], 10**40, "1e999", {"a": 1}])
async def test_a_cost_of_nonsense_is_an_error_of_its_arguments(served: Tooled, rows: object) -> None:
    result = await served.call("export", rows=rows)
    assert result.is_error
    assert text(result) == "Not run: its cost cannot be computed from these arguments. Correct them, then call again."
    assert await served.left() == {"calls": 4, "usd": 1_000_000, "jobs": 1}


async def test_a_tool_that_is_used_up_for_good_says_so(served: Tooled) -> None:
    await served.limiter.repository.set_resource_defaults("mcp", ["calls: 1 total"])
    await served.call("fetch", page="p")
    result = await served.call("fetch", page="p")
    assert "It does not come back by itself: do not repeat the call, finish with what you have." in text(result)
    assert (result.structured_content or {})["retry_after_seconds"] is None


async def test_a_disabled_user_is_not_to_repeat(served: Tooled) -> None:
    await served.limiter.repository.set_switches("anonymous", disabled=True, reason="their secret")
    result = await served.call("fetch", page="p")
    assert text(result) == (
        "Not run: access of this user is switched off. Do not call again: only its owner can switch it on."
    )


# slots, failures and cancellation


async def test_a_long_tool_holds_its_slot(served: Tooled) -> None:
    async with served.client() as client, anyio.create_task_group() as group:
        group.start_soon(served.call, "render", client)
        await served.tools.began.wait()
        assert (await served.left())["jobs"] == 0
        result = await served.call("render", client)
        assert "too many calls run at once under the limit jobs of this user" in text(result)
        assert "Wait until another call has ended, or" in text(result)
        served.tools.may_end.set()
    assert await served.left() == {"calls": 3, "usd": 1_000_000, "jobs": 1}


async def test_a_tool_that_fails_frees_its_slot_and_keeps_its_cost(served: Tooled) -> None:
    assert (await served.call("crash")).is_error
    assert await served.left() == {"calls": 3, "usd": 900_000, "jobs": 1}


async def test_a_failure_is_given_back_if_the_server_says_so(library: str, limiter: RateLimiter) -> None:
    served = Tooled(library, limiter, refund="before_answer")
    assert (await served.call("crash")).is_error
    assert await served.left() == {"calls": 4, "usd": 1_000_000, "jobs": 1}


@pytest.mark.parametrize("refund", ["never", "before_answer"])
async def test_a_cancelled_tool_has_used_what_it_settled(library: str, limiter: RateLimiter, refund: str) -> None:
    served = Tooled(library, limiter, refund=refund)
    async with served.client() as client:
        async with anyio.create_task_group() as group:

            async def cancelled() -> None:
                with anyio.CancelScope() as scope:
                    scopes.append(scope)
                    await served.call("crash", client, used="$0.03")

            scopes: list[anyio.CancelScope] = []
            group.start_soon(cancelled)
            await served.tools.began.wait()
            assert (await served.left())["jobs"] == 0
            scopes[0].cancel()
        left = await served.left_at_the_end()
    assert left == {"calls": 3, "usd": 970_000, "jobs": 1}


@pytest.mark.parametrize(("refund", "calls"), [("never", 3), ("before_answer", 4)])
async def test_a_cancelled_tool_that_settled_nothing(
    library: str, limiter: RateLimiter, refund: str, calls: int
) -> None:
    served = Tooled(library, limiter, refund=refund)
    async with served.client() as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(served.call, "render", client)
                await served.tools.began.wait()
                scope.cancel()
        left = await served.left_at_the_end()
    assert left["calls"] == calls


async def test_a_refusal_inside_a_tool_is_a_result(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.set_resource_defaults("mcp:session", ["calls: 9/min", "usd: $9/day UTC"])
    served = Tooled(library, limiter, per=["session"])
    result = await served.call("more")
    assert text(result).startswith("Stopped: the limit calls of this user is used up for now (1 of 4 left, 2 needed)")
    assert (result.structured_content or {})["scope"] == "user"
    assert await served.left() == {"calls": 1, "usd": 1_000_000, "jobs": 1}
    assert (await served.left(resource="mcp:session"))["calls"] == 6  # what was refused is in no bucket
    with pytest.raises(RateLimitExceeded) as caught:
        async with limiter.acquire("anonymous", "mcp", {"calls": 4}):
            pass
    assert text(refused(caught.value)).startswith("Stopped: the limit calls of this user is used up")


# hostile clients


async def test_unknown_tools_create_no_bucket(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.set_resource_defaults("mcp/*", ["calls: 100/min"])
    served = Tooled(library, limiter, per=["tool"])
    names = ["nix", "x" * 100_000, "a\r\nb", "mcp/search", "_default_", "*", "$SYSTEM", "\u202e", "é" * 300]
    async with served.client() as client:
        results = [await served.call(name, client) for name in names]
    assert all(each.is_error for each in results)
    assert all("Not run" in text(each) and len(text(each)) < 300 for each in results[4:])  # they count as calls
    assert await served.buckets() == {("anonymous", "mcp")}


async def test_a_fresh_session_is_no_fresh_budget(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.set_resource_defaults("mcp:session", ["calls: 2/min"])
    served = Tooled(library, limiter, per=["session"], session=lambda call: call.arguments["page"])
    admitted = []
    for number in range(20):
        result = await served.call("fetch", page=f"{number}" + "\n" * 5_000)
        admitted.append(not result.is_error)
    assert admitted == [True] * 4 + [False] * 16
    buckets = await served.buckets()
    assert len(buckets) == 5  # a session that was refused leaves nothing
    assert all(entity == "anonymous" or len(entity) == len("session-") + 32 for entity, _ in buckets)


async def test_a_call_without_session_or_agent_draws_on_its_user(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.set_resource_defaults("mcp:session", ["calls: 1/min"])
    await limiter.repository.set_resource_defaults("mcp:agent", ["calls: 9/min"])
    served = Tooled(library, limiter, per=["agent", "session"])
    assert not (await served.call("fetch", page="p")).is_error
    result = await served.call("fetch", page="p")
    assert (result.structured_content or {})["scope"] == "session"
    assert {entity for entity, _ in await served.buckets()} == {"anonymous"}


async def test_two_users_do_not_share_a_session(library: str, limiter: RateLimiter) -> None:
    await limiter.repository.set_resource_defaults("mcp:session", ["calls: 1/min"])
    for user in ("ann", "bob"):
        served = Tooled(library, limiter, user=user, per=["session"], session=lambda call: "guessed")
        assert not (await served.call("fetch", page="p")).is_error


async def test_concurrent_sessions_share_one_limit(served: Tooled) -> None:
    admitted: list[bool] = []

    async def session() -> None:
        async with served.client() as client:
            results = [await served.call("fetch", client, page="p") for _ in range(2)]
            admitted.extend(not each.is_error for each in results)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(session)
    assert (admitted.count(True), len(admitted)) == (4, 40)


async def test_malformed_calls_are_the_servers_to_refuse(limiter: RateLimiter) -> None:
    served = Tooled("sdk-legacy", limiter)
    async with served.client() as client:
        with pytest.raises(MCPError, match="Invalid request parameters"):
            await client.session._dispatcher.send_raw_request("tools/call", {"name": {"a": 1}})
        with pytest.raises(MCPError, match="Invalid request parameters"):
            await client.session._dispatcher.send_raw_request("tools/call", {"name": "fetch", "arguments": [1]})
    assert await served.buckets() == set()


@pytest.mark.parametrize("user", ["a b", "x" * 300, "", "$SYSTEM"])
async def test_an_id_that_no_entity_can_have_is_refused(library: str, limiter: RateLimiter, user: str) -> None:
    served = Tooled(library, limiter, user=lambda call: user)
    result = await served.call("fetch", page="p")
    assert (result.structured_content or {})["error"] == "invalid_caller"
    assert served.tools.done == []


def test_a_subject_becomes_an_id_that_no_other_subject_has() -> None:
    odd = entity_of("user", "a b")
    assert odd.startswith("user-sha256-")
    subjects = ["ann", "a b", odd.removeprefix("user-"), "x" * 9_999, "x" * 9_998, "e\u0301", "\u00e9", "\ud800"]
    ids = {principal(ToolCall("t", user=each)) for each in subjects}
    assert len(ids) == len(subjects)
    assert principal(ToolCall("t", user="ann", client="app")) == "user-ann"
    assert principal(ToolCall("t", client="ann")) == "client-ann"
    assert principal(ToolCall("t", user="", client="")) == "anonymous"


# what does not work


async def test_an_outage_is_a_result(library: str) -> None:
    repository = Repository.in_memory(clock=ManualClock())
    limiter = RateLimiter(repository)
    await repository.set_resource_defaults("mcp", LIMITS)
    served = Tooled(library, limiter)
    await repository.close()
    result = await served.call("fetch", page="p")
    assert (result.structured_content or {})["error"] == "limiter_failed"


async def test_limits_that_are_missing_are_logged(
    library: str, limiter: RateLimiter, caplog: pytest.LogCaptureFixture
) -> None:
    served = Tooled(library, limiter, resource="other")
    result = await served.call("fetch", page="p")
    assert text(result).startswith("Not run: the limits of this server do not work.")
    assert "the limits of the tool 'fetch' could not be applied" in caplog.text
    assert served.tools.done == []


class Broken(Exception):
    """A fault whose text is none of the model's business."""


def broken(_: ToolCall) -> Any:
    raise Broken("password=hunter2")


async def broken_later(_: ToolCall) -> Any:
    raise KeyError("password=hunter2")


@pytest.mark.parametrize("function", [broken, broken_later])
@pytest.mark.parametrize("what", ["limiter", "user", "agent", "session", "draws", "costs"])
async def test_a_function_that_fails_is_a_tools_error_and_takes_nothing(
    library: str, limiter: RateLimiter, caplog: pytest.LogCaptureFixture, what: str, function: Any
) -> None:
    if what == "costs" and function is broken_later:
        return  # a KeyError says that the arguments are wrong
    options: dict[str, Any] = {"costs": {**COSTS, "render": function}} if what == "costs" else {what: function}
    served = Tooled(library, options.pop("limiter", limiter), per=["agent", "session"], **options)
    served.limiter = limiter
    for _ in range(2):
        result = await served.call("render")
        assert text(result).startswith("Not run: the limits of this server do not work.")
        assert (result.structured_content or {})["error"] == "limiter_failed"
        assert "hunter2" not in result.model_dump_json()
    said = {"costs": "the cost of a call of the tool 'render' cannot be computed"}
    assert said.get(what, f"{what}= failed for a call of the tool 'render'") in caplog.messages
    assert "hunter2" in caplog.text
    assert (served.tools.began.is_set(), await served.buckets()) == (False, set())
    assert await served.left() == {"calls": 4, "usd": 1_000_000, "jobs": 1}


@pytest.mark.parametrize(
    ("what", "returned"),
    [("limiter", None), ("user", None), ("user", 7), ("draws", None), ("draws", [7])],
)
async def test_a_function_that_returns_something_else_is_a_tools_error(
    library: str, limiter: RateLimiter, caplog: pytest.LogCaptureFixture, what: str, returned: Any
) -> None:
    options: dict[str, Any] = {what: lambda _: returned}
    served = Tooled(library, options.pop("limiter", limiter), per=["agent"], **options)
    result = await served.call("render")
    assert result.is_error
    assert text(result).startswith("Not run: the limits of this server do not work.")
    assert "the limits of the tool" in caplog.text


async def test_a_tool_that_costs_money_alone_needs_no_limit_of_it_among_those_of_tools(
    library: str, limiter: RateLimiter
) -> None:
    await limiter.repository.set_resource_defaults("mcp/*", ["calls: 1/min"])
    served = Tooled(library, limiter, per=["tool"], costs={"search": {"usd": "$0.40"}, "fetch": {"calls": 1}})
    assert [(await served.call("search", query="q")).is_error for _ in range(3)] == [False] * 3
    assert (await served.left())["usd"] == 1_000_000 - 3 * 250_000
    assert [(await served.call("fetch", page="p")).is_error for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"costs": {"t": {"usd": "0.01"}}}, r"costs\['t'\]\['usd'\] '0.01': must be .* like '\$0.01'"),
        ({"costs": {"t": {"usd": "€1"}}}, "money of usd"),
        ({"costs": {"t": {"usd": 0.01}}}, "a float is not exact"),
        ({"costs": {"t": None}}, r"costs\['t'\]"),
        ({"costs": ["t"]}, "costs"),
        ({"other": {"a b": 1}}, "other"),
        ({"resource": "a b"}, "resource"),
        ({"costs": {"a b": {"calls": 1}}, "per": ["tool"]}, "costs"),
        ({"per": "tool"}, "per"),
        ({"per": ["tools"]}, "per"),
        ({"refund": "always"}, "refund"),
        ({"suggest": "no"}, "suggest"),
        ({"user": "a b"}, "entity_id"),
        ({"max_wait": -1}, "max_wait"),
        ({"wait": 1}, "wait"),
        ({"idempotency_key": "k"}, "idempotency_key 'k': must be a function of the call"),
        ({"key_life": 60}, "key_life 60: needs a key"),
    ],
)
def test_wrong_arguments_are_refused_at_once(limiter: RateLimiter, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        of_sdk.ToolLimits(limiter, **options)


def test_durations_are_read_aloud() -> None:
    said = [in_words(each) for each in (0, 1, 59, 60, 200, 3_600, 7_500, 86_400, 90_061)]
    assert said[:5] == ["0 seconds", "1 second", "59 seconds", "1 minute", "3 minutes 20 seconds"]
    assert said[5:] == ["1 hour", "2 hours 5 minutes", "1 day", "1 day 1 hour"]


# the other way: a program that calls many servers


@pytest.fixture
async def payer() -> RateLimiter:
    limiter = RateLimiter(Repository.in_memory(clock=ManualClock()))
    await limiter.repository.set_resource_defaults("mcp", ["calls: 5/min", "usd: $1/day UTC"])
    await limiter.repository.set_resource_defaults("mcp/*", ["calls: 3/min"])
    await limiter.repository.set_resource_defaults("mcp/a/fetch", ["calls: 2/min"])
    return limiter


async def test_a_guard_refuses_before_the_call_goes_out(served: Tooled, payer: RateLimiter) -> None:
    guard = ToolGuard(payer, entity_id="run-7", costs={"a/fetch": {"calls": 1}}, per=["server", "tool"])
    await served.limiter.repository.set_resource_defaults("mcp", ["calls: 100/min", "usd: $9/day UTC"])
    async with served.client() as client:
        a, b = guard.client(client, "a"), guard.client(client, "b")
        for _ in range(2):
            await a.call_tool("fetch", {"page": "p"})
        with pytest.raises(RateLimitExceeded) as caught:
            await a.call_tool("fetch", {"page": "p"})
        assert caught.value.primary_violation.resource == "mcp/a/fetch"
        await a.call_tool("help")
        with pytest.raises(RateLimitExceeded) as caught:
            await a.call_tool("search", {"query": "q"})
        assert caught.value.primary_violation.resource == "mcp/a"
        await b.call_tool("search", {"query": "q"})
        assert await payer.available("run-7", "mcp") == {"calls": 1, "usd": 1_000_000}
        assert await b.list_tools()
    assert served.tools.done == ["p", "p"]


async def test_a_guard_answers_the_model_if_it_is_asked_to(served: Tooled, payer: RateLimiter) -> None:
    guard = ToolGuard(payer, entity_id="run-7", results=True, other={"calls": 5}, draws=[Draw("team", resource="mcp")])
    async with served.client() as client:
        a = guard.client(client, "a")
        await a.call_tool("fetch", {"page": "p"})
        result = await a.call_tool("x" * 10_000, {})
    assert result.is_error is True
    assert text(result).startswith("Not run: the limit calls of this user is used up for now (0 of 5 left, 5 needed).")
    assert served.tools.done == ["p"]
    assert await payer.available("team", "mcp") == {"calls": 0, "usd": 1_000_000}


async def test_fastmcps_client_gets_what_it_knows(payer: RateLimiter) -> None:
    served = Tooled("fastmcp", payer, user="other")
    guard = of_fastmcp.ToolGuard(payer, entity_id="run-7", results=True, other={"calls": 6})
    async with served.client() as client:
        a = guard.client(client, "a")
        with pytest.raises(ToolError, match="Not run: this call is larger than the limit calls of this user"):
            await a.call_tool("fetch", {"page": "p"})
        result = await a.call_tool("fetch", {"page": "p"}, raise_on_error=False)
        assert (result.is_error, result.data) == (True, None)
        assert text(await a.call_tool_mcp("fetch", {"page": "p"})).startswith("Not run: ")


async def test_a_guarded_call_keeps_its_cost_when_it_is_cancelled(served: Tooled, payer: RateLimiter) -> None:
    guard = ToolGuard(payer, entity_id="run-7")
    async with served.client() as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(guard.client(client, "a").call_tool, "render")
                await served.tools.began.wait()
                scope.cancel()
    assert (await payer.available("run-7", "mcp"))["calls"] == 4


async def test_a_run_pays_for_its_calls_until_its_budget_is_spent(served: Tooled, payer: RateLimiter) -> None:
    costs: dict[str, Any] = {"a/search": {"calls": 1, "usd": "$0.40"}, "a/fetch": {"calls": 1, "usd": 0}}
    async with payer.budget("run-7", {"usd": "$0.50", "calls": 3}, within="team", expires=60) as run:
        guard = ToolGuard(run, costs=costs, results=True)
        async with served.client() as client:
            a = guard.client(client, "a")
            await a.call_tool("search", {"query": "q"})
            spent = await a.call_tool("search", {"query": "q"})
            await a.call_tool("fetch", {"page": "p"})
            assert await run.left() == {"calls": 1, "usd": 100_000}
            await run.end()
            over = await a.call_tool("fetch", {"page": "p"})
    assert text(spent) == (
        "Not run: the limit usd of this run is spent ($0.10 of $0.50 left, $0.40 needed). It does not come back by "
        "itself: do not repeat the call, finish with what you have. You may call now: a/fetch."
    )
    assert text(over) == (
        "Not run: the budget of this run is over. It does not come back by itself: do not repeat the call, finish with "
        "what you have."
    )
    assert await payer.available("team", "mcp") == {"calls": 3, "usd": 600_000}
    with pytest.raises(ValidationError, match="entity_id 'other': must name who pays"):
        ToolGuard(run, entity_id="other")
    with pytest.raises(ValidationError, match="entity_id None: must name who pays"):
        ToolGuard(payer)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_retried_call_of_a_tool_counts_once(library: str, limiter: RateLimiter) -> None:
    served = Tooled(library, limiter, idempotency_key=lambda call: call.arguments.get("page"), key_life=60)
    for page in ("p-1", "p-1", "p-1", "p-2"):
        assert not (await served.call("fetch", page=page)).is_error
    assert (await limiter.available("anonymous", "mcp"))["calls"] == 2


async def test_a_key_of_a_call_of_another_size_is_a_result(limiter: RateLimiter) -> None:
    served = Tooled("sdk", limiter, idempotency_key=lambda _: "k")
    await served.call("export", rows=1)
    result = await served.call("export", rows=2)
    assert text(result).startswith("Not run: its key was used for a call of another size.")
    assert "k" not in (result.structured_content or {}).values()


async def test_a_retried_call_of_a_guard_counts_once_in_its_run(served: Tooled, payer: RateLimiter) -> None:
    async with payer.budget("run-7", {"usd": "$0.50", "calls": 3}, within="team", expires=60) as run:
        guard = ToolGuard(
            run, costs={"a/fetch": {"calls": 1, "usd": 0}}, idempotency_key=lambda call: call.arguments["page"]
        )
        async with served.client() as client:
            for page in ("p-1", "p-1", "p-2"):
                await guard.client(client, "a").call_tool("fetch", {"page": page})
        assert await run.left() == {"calls": 1, "usd": 500_000}


def test_a_server_of_a_guard_has_a_name_without_a_slash(limiter: RateLimiter) -> None:
    guard = ToolGuard(limiter, entity_id="run-7")
    for server in ("a/b", "a b", ""):
        with pytest.raises(ValidationError, match="server"):
            guard.client(object(), server)
    with pytest.raises(ValidationError, match="per"):
        ToolGuard(limiter, entity_id="run-7", per=["session"])


# replicas


async def ask(served: Served, token: str, mode: str, calls: int) -> list[CallToolResult]:
    url = f"http://127.0.0.1:{served.port}/mcp"
    fields = {"Authorization": f"Bearer {token}", "Mcp-Session-Id": "a-fresh-one"}
    if mode == "legacy":
        fields.pop("Mcp-Session-Id")  # a server that issues sessions knows no others
    async with httpx2.AsyncClient(headers=fields, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode) as client:
            return [await client.call_tool("echo", {"text": "hello"}) for _ in range(calls)]


@pytest.mark.slow
@pytest.mark.parametrize("application", ["mcp_app", "fastmcp_app"])
async def test_replicas_share_the_limits_of_a_file(tmp_path: Path, application: str) -> None:
    """Ann's client negotiates no sessions and sends the id of one; Bob's has a session at each replica."""
    file = tmp_path / "limits.db"
    named = f"support.core.web.{application}:app"
    found: dict[str, list[dict[str, Any]]] = {"ann": [], "bob": []}

    async def session(replica: Served, user: str, mode: str, calls: int) -> None:
        results = await ask(replica, f"token-{user}", mode, calls)
        found[user] += [each.structured_content or {} for each in results]

    async with await Repository.sqlite(file) as repository:
        await repository.set_resource_defaults("mcp", ["calls: 5 total"])
        await repository.set_resource_defaults("mcp/echo", ["calls: 100 total"])
        await repository.set_resource_defaults("mcp:agent", ["calls: 8 total"])
        await repository.set_resource_defaults("mcp:session", ["calls: 9 total"])
        with (
            serving("uvicorn", named, ZAEL_TEST_FILE=str(file)) as first,
            serving("uvicorn", named, ZAEL_TEST_FILE=str(file)) as second,
        ):
            async with anyio.create_task_group() as group:
                for replica in (first, second):
                    group.start_soon(session, replica, "ann", "auto", 6)
            for replica in (first, second):
                await session(replica, "bob", "legacy", 2)
        assert sorted(each.get("scope", each.get("error", "")) for each in found["ann"]) == [""] * 5 + ["user"] * 7
        assert [each.get("scope", each.get("error", "")) for each in found["bob"]] == [
            "",
            "",
            "",
            "agent",
        ]  # 8 of both users' agent
        limiter = RateLimiter(repository)
        assert await limiter.available("user-ann", "mcp") == {"calls": 0}
        assert await limiter.available("user-bob", "mcp") == {"calls": 2}
        assert await limiter.available("agent-app", "mcp:agent") == {"calls": 0}
        sessions = {each.entity_id for each in (await repository.list_buckets("mcp:session")).buckets}
    assert {each for each in sessions if not each.startswith("session-")} == {"user-ann"}
    assert len(sessions) == 3
