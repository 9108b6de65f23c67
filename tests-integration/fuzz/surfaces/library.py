"""Every public method of limiter, repository and lease, blocking and not, over a table that others share."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from hypothesis import strategies as st

from support.core.owners import owner_of
from support.integration.emulators import dynoxide, running
from zae_limiter import (
    Limit,
    Options,
    RateLimiter,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    SyncStore,
    ZAELimiterError,
)
from zae_limiter.operations.values import BatchGet, Key, Query
from zae_limiter.schema.partitions import every_gsi4_pk
from zae_limiter.stores import DynamoDBStore, MemoryStore, MemoryTable, SyncDynamoDBStore, SyncMemoryStore
from zae_limiter.testing import ManualClock

from ..arguments import Call, Known, calls
from ..batches import Surface
from ..judging import Tally, Unclean, judging

Stores = Callable[[bool], Any]  # asynchronous or not
STACK = "fuzzed-table"
_numbers = count()


class Script:
    """Calls over one namespace of a table; another one has to stay as it is."""

    def __init__(self, stores: Stores, tally: Tally) -> None:
        self.stores, self.tally = stores, tally
        self.known: dict[Known, Any] = {Known.LAST_TOKEN: None, Known.GONE_ID: "gone"}

    async def play(self, script: list[Call], *, asynchronous: bool) -> None:
        """Make the calls, one after the other. Raises `Unclean`."""
        store, number = self.stores(False), next(_numbers)
        options = Options(
            stack=STACK, clock=ManualClock(), namespace=f"victim-{number}", create_table=True, check_version=False
        )
        victim = _occupied(SyncRepository.over(store, options))
        repository = victim.namespace(f"own-{number}")
        self.known |= {Known.OWN_ID: repository.namespace_id, Known.VICTIM_ID: victim.namespace_id}
        before = everything(store, victim.namespace_id)
        used: Any = SyncRateLimiter(repository)
        if asynchronous:
            own = Options(stack=STACK, clock=ManualClock(), namespace=repository.name, check_version=False)
            used = RateLimiter(repository=await Repository.over(self.stores(True), own))
        for call in script:
            await self._make(used, call)
        if asynchronous:
            await used.close()
        if everything(store, victim.namespace_id) != before:
            raise Unclean("another namespace changed")
        victim.close()

    async def _make(self, limiter: Any, call: Call) -> None:
        arguments = {name: self._filled(value) for name, value in call.arguments.items()}
        with judging(self.tally, ZAELimiterError):
            owner = limiter if hasattr(limiter, call.method) else owner_of(call.method, limiter.repository)
            method = getattr(owner, call.method)
            if call.method == "acquire":
                await self._acquire(method(**arguments), call.block)
            else:
                self._note(call.method, await _awaited(method(**arguments)))

    async def _acquire(self, lease: Any, block: tuple[Call, ...]) -> None:
        held = await lease.__aenter__() if hasattr(lease, "__aenter__") else lease.__enter__()
        for call in block:
            with judging(self.tally, ZAELimiterError):
                await _awaited(getattr(held, call.method)(**call.arguments))
        await _awaited(
            lease.__aexit__(None, None, None) if hasattr(lease, "__aexit__") else lease.__exit__(*[None] * 3)
        )

    def _filled(self, value: Any) -> Any:
        return self.known[value] if isinstance(value, Known) else value

    def _note(self, method: str, answer: Any) -> None:
        if getattr(answer, "next", None) is not None:
            self.known[Known.LAST_TOKEN] = answer.next
        if method == "delete_namespace":
            self.known[Known.GONE_ID] = answer.namespace_id
        if isinstance(answer, Repository | SyncRepository):
            answer.get_cache_stats()


def everything(store: SyncStore, namespace_id: str) -> Mapping[Key, Any]:
    """All items of a namespace."""
    found = [item for pk in every_gsi4_pk(namespace_id) for item in store.perform(Query(pk, "GSI4")).items]
    keys = tuple(Key(item["PK"], item["SK"]) for item in found)
    return store.perform(BatchGet(keys)).items


def _occupied(repository: SyncRepository) -> SyncRepository:
    with SyncRateLimiter(repository).acquire("e", "r", {"rpm": 1}, [Limit.per_minute("rpm", 60)]):
        repository.set_limits("e", [Limit.per_minute("rpm", 60)], "r")
        repository.create_entity("e", metadata={"k": "v"})
    return repository


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _surface(stores: Callable[[], Stores], longest: int) -> Surface:
    def feed(drawn: tuple[list[Call], bool], tally: Tally) -> None:
        script, asynchronous = drawn
        asyncio.run(Script(stores(), tally).play(script, asynchronous=asynchronous))

    return Surface(st.tuples(st.lists(calls(), min_size=1, max_size=longest), st.booleans()), feed)


@contextmanager
def in_memory() -> Iterator[Surface]:
    """A table in this process for each script."""

    def stores() -> Stores:
        table = MemoryTable()
        return lambda asynchronous: MemoryStore(table) if asynchronous else SyncMemoryStore(table)

    yield _surface(stores, 8)


@contextmanager
def on_dynoxide() -> Iterator[Surface]:
    """One table of an emulator for all scripts."""
    with running(dynoxide()) as url:

        def stores(asynchronous: bool) -> Any:  # noqa: FBT001  it is a type
            return (DynamoDBStore if asynchronous else SyncDynamoDBStore)(STACK, region="eu-west-1", endpoint_url=url)

        yield _surface(lambda: stores, 8)
