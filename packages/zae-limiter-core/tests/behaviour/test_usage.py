"""Usage snapshots, in pages and in sums, of an entity and of a resource; in both variants."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.core.snapshots import usage_item
from support.core.worlds import Process, World
from zae_limiter import Limit, RateLimitExceeded, Repository, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.flows.records.usage import SnapshotPages, get_snapshots, next_page, validate_usage
from zae_limiter.flows.steps import Parallel, play
from zae_limiter.operations.values import BatchGet, Delete, Operation, Page, Put, Query
from zae_limiter.schema import keys
from zae_limiter.schema.usage import read_usage, rest_attribute
from zae_limiter.testing import ManualClock
from zae_limiter.values import Refuser
from zae_limiter.values.usage import LimitUsage, UsageSnapshot, Window, parse_window_key, window_key, window_start

DAY = datetime(2024, 1, 1, tzinfo=UTC)


def hour(number: int) -> datetime:
    return DAY + timedelta(hours=number)


def snapshot(
    entity: str,
    resource: str,
    start: datetime,
    window: Window = "hourly",
    *,
    events: int = 1,
    refused: int = 0,
    refused_by: Mapping[tuple[str, str], int] | None = None,
    shadowed: int = 0,
    **consumed: int,
) -> UsageSnapshot:
    by = {Refuser(*at): number for at, number in (refused_by or {}).items()}
    return UsageSnapshot(entity, resource, window, start, consumed, events, refused, shadowed, by)


def store(world: World, repository: Repository, *snapshots: UsageSnapshot) -> None:
    for each in snapshots:
        world.table.execute(Put(usage_item(repository.namespace_id, each)))


@pytest.fixture
async def process(world: World) -> Process:
    """Three days of two entities on two resources, 10 hours of each; another namespace has the same names."""
    process = await world.process()
    for name, amount in (("default", 1), ("elsewhere", 1000)):
        repository = (await world.process(name)).repository
        for entity, resource in (("a", "gpt-4"), ("a", "gpt-4o"), ("b", "gpt-4")):
            for day in range(3):
                hours = [snapshot(entity, resource, hour(24 * day + n), tpm=amount * n) for n in range(10)]
                total = snapshot(entity, resource, hour(24 * day), "daily", events=10, tpm=45 * amount)
                store(world, repository, *hours, total)
    return process


async def every_page(repository: Repository, limit: int, **asked: Any) -> list[UsageSnapshot]:
    """The snapshots of all pages, none of which is too long."""
    found: list[UsageSnapshot] = []
    following: str | None = None
    while True:
        page = await repository.get_usage_snapshots(limit=limit, next=following, **asked)
        assert len(page.snapshots) <= limit
        found += page.snapshots
        following = page.next
        if following is None:
            return found


ASKED: list[dict[str, Any]] = [
    {"entity_id": "a"},
    {"entity_id": "a", "resource": "gpt-4"},
    {"resource": "gpt-4"},
    {"resource": "gpt-4", "window": "daily"},
    {"entity_id": "a", "window": "daily"},
    {"entity_id": "a", "resource": "gpt-4", "start": hour(3), "end": hour(30)},
    {"entity_id": "a", "start": hour(3), "end": hour(30)},
    {"resource": "gpt-4", "start": hour(24), "end": hour(25)},
    {"resource": "gpt-4", "start": hour(1)},
    {"resource": "gpt-4", "window": "daily", "start": hour(24)},
    {"resource": "gpt-4", "window": "daily", "start": hour(1), "end": hour(48)},
    {"entity_id": "a", "resource": "gpt-4", "window": "daily", "end": hour(25)},
    {"entity_id": "b", "end": hour(1)},
    {"entity_id": "nobody"},
    {"resource": "gpt"},
]
EVERYTHING = [
    *(
        snapshot(e, r, hour(24 * d + n), tpm=n)
        for d in range(3)
        for n in range(10)
        for e, r in (("a", "gpt-4"), ("a", "gpt-4o"), ("b", "gpt-4"))
    ),
    *(
        snapshot(e, r, hour(24 * d), "daily", events=10, tpm=45)
        for d in range(3)
        for e, r in (("a", "gpt-4"), ("a", "gpt-4o"), ("b", "gpt-4"))
    ),
]


def expected(asked: dict[str, Any]) -> list[UsageSnapshot]:
    """What a plain look at everything finds."""
    found = [
        each
        for each in EVERYTHING
        if each.entity_id == asked.get("entity_id", each.entity_id)
        and each.resource == asked.get("resource", each.resource)
        and each.window == asked.get("window", "hourly")
        and asked.get("start", hour(0)) <= each.window_start < asked.get("end", hour(1000))
    ]
    by_entity = "entity_id" in asked
    return sorted(found, key=lambda s: (s.resource if by_entity else "", s.window_start, s.entity_id))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("window", ["hourly", "daily"])
async def test_pages_of_a_namespace_hold_everybody_on_every_resource(
    process: Process, size: int, window: Window
) -> None:
    found: list[UsageSnapshot] = []
    following: str | None = None
    while True:
        page = await process.repository.get_usage_snapshots(
            window=window, start=hour(24), end=hour(48), limit=size, next=following
        )
        found += page.snapshots
        if (following := page.next) is None:
            break
    per_place = 10 if window == "hourly" else 1
    assert len(found) == len({(each.window_start, each.entity_id, each.resource) for each in found}) == 3 * per_place
    assert [each.window_start for each in found] == sorted(each.window_start for each in found)
    assert sum(each.consumed["tpm"] for each in found) == 3 * 45
    summary = await process.repository.get_usage_summary(window=window, start=hour(24), end=hour(48))
    assert summary.limits[0].total == 3 * 45


@pytest.mark.parametrize("asked", ASKED, ids=str)
async def test_pages_of_any_size_hold_what_was_asked_for_once_and_in_order(
    process: Process, asked: dict[str, Any]
) -> None:
    for limit in (1000, 7, 1):
        assert await every_page(process.repository, limit, **asked) == expected(asked)


async def test_a_snapshot_that_goes_while_the_others_are_read_is_left_out(async_world: World) -> None:
    repository = (await async_world.process()).repository
    store(async_world, repository, *(snapshot(entity, "r", hour(0), tpm=1) for entity in ("a", "b", "c")))

    def perform(operation: Operation[Any]) -> Any:
        if isinstance(operation, BatchGet):
            async_world.table.execute(Delete(operation.keys[0]))
        return async_world.table.execute(operation)

    asked = validate_usage(None, "r", "hourly", None, None)
    first = play(get_snapshots(repository.namespace_state, asked, limit=2, behind=None), perform)
    assert [each.entity_id for each in first.snapshots] == ["b"]
    rest = play(get_snapshots(repository.namespace_state, asked, limit=2, behind=first.next), async_world.table.execute)
    assert [each.entity_id for each in rest.snapshots] == ["c"]
    assert rest.next is None


@pytest.mark.parametrize("resource", [None, "r"])
async def test_all_pages_together_read_each_row_once(resource: str | None) -> None:
    world = World("async", spread=True)
    repository = (await world.process()).repository
    written = [snapshot(f"e-{number}", "r", hour(number % 2), tpm=number) for number in range(300)]
    for each in written:
        world.table.execute(Put(usage_item(repository.namespace_id, each, spread=True)))
    rows: list[int] = []

    def perform(operation: Any) -> Any:
        if isinstance(operation, Parallel):
            return [perform(each) for each in operation.steps]
        answer = world.table.execute(operation)
        if isinstance(operation, Query):
            rows.append(len(answer.items))
        return answer

    asked = validate_usage(None, resource, "hourly", None, None)
    pages, found = SnapshotPages(repository.namespace_state, asked, limit=40), list[UsageSnapshot]()
    while not pages.ended:
        found += play(next_page(pages), perform)
    assert sum(rows) == 300
    assert sorted(found, key=str) == sorted(written, key=str)
    assert [each.window_start for each in found] == sorted(each.window_start for each in found)


async def test_an_entity_is_one_query_and_a_resource_a_query_and_a_read_of_a_hundred(process: Process) -> None:
    process.wire.sent()
    await process.repository.get_usage_snapshots(entity_id="a", resource="gpt-4")
    assert process.wire.sent() == ["Query"]
    await process.repository.get_usage_snapshots(resource="gpt-4", limit=1000)
    assert process.wire.sent() == ["Query", "BatchGet"]
    await process.repository.get_usage_snapshots(resource="gpt-4", window="daily", limit=6)
    assert process.wire.sent() == ["Query", "BatchGet"]
    await process.repository.get_usage_summary(entity_id="a")
    assert process.wire.sent() == ["Query"]


@pytest.mark.parametrize("asked", [(None, "r"), (None, None), ("a", "r")])
async def test_a_query_begins_with_the_window_of_its_start_not_with_the_day(
    async_world: World, asked: tuple[str | None, str | None]
) -> None:
    state = (await async_world.process()).repository.namespace_state
    for window, start, before in (("hourly", hour(9), "2024-01-01T08:00:00Z"), ("daily", hour(24), "2024-01-01")):
        sent: list[Query] = []

        def perform(operation: Operation[Any], sent: list[Query] = sent) -> Page:
            assert isinstance(operation, Query)
            sent.append(operation)
            return Page([], None)

        play(get_snapshots(state, validate_usage(*asked, window, start, None), limit=2, behind=None), perform)
        assert str(sent[0].after).endswith(before + "~")


async def test_a_summary_adds_up_windows_over_entities_and_limits(world: World) -> None:
    repository = (await world.process()).repository
    store(
        world,
        repository,
        snapshot("a", "r", hour(0), events=3, refused=4, refused_by={("org", "rpm"): 3}, tpm=100, rpm=3),
        snapshot(
            "b",
            "r",
            hour(0),
            events=1,
            refused=5,
            refused_by={("org", "rpm"): 2, ("top", "rpm"): 1},
            shadowed=1,
            tpm=50,
            rpm=1,
        ),
        snapshot("a", "r", hour(1), events=2, shadowed=2, tpm=-20),
        snapshot("a", "other", hour(1), events=9, tpm=7),
        snapshot("a", "r", hour(0), "daily", events=5, tpm=80, rpm=3),
    )
    summary = await repository.get_usage_summary(resource="r")
    assert (summary.window, summary.windows, summary.total_events) == ("hourly", 2, 6)
    assert (summary.total_refused, summary.total_shadowed) == (9, 3)
    assert summary.refused_by == {("org", "rpm"): 5, ("top", "rpm"): 1}
    assert summary.limits == (LimitUsage("rpm", 4, 0, 4, 2.0), LimitUsage("tpm", 130, -20, 150, 65.0))
    summary = await repository.get_usage_summary(entity_id="a", start=hour(1))
    assert summary.limits == (LimitUsage("tpm", -13, -13, -13, -13.0),)
    assert (await repository.get_usage_summary(entity_id="a", window="daily")).total_events == 5
    nothing = await repository.get_usage_summary(entity_id="nobody")
    assert (nothing.windows, nothing.limits, nothing.total_events) == (0, (), 0)


async def test_parts_of_tokens_that_windows_or_entities_have_add_up_to_whole_ones(world: World) -> None:
    repository = (await world.process()).repository
    for entity in ("a", "b"):
        for number in range(2):
            item = usage_item(repository.namespace_id, snapshot(entity, "gpt-4", hour(number), tpm=4))
            world.table.execute(Put({**item, rest_attribute("tpm"): 500}))
    of_entity = await repository.get_usage_summary(entity_id="a")
    assert of_entity.limits == (LimitUsage("tpm", 9, 4, 4, 4.5),)
    of_resource = await repository.get_usage_summary(resource="gpt-4")
    assert of_resource.limits == (LimitUsage("tpm", 18, 9, 9, 9.0),)


async def test_a_summary_reads_to_the_end(world: World) -> None:
    repository = (await world.process()).repository
    store(world, repository, *(snapshot(f"e-{n}", "r", hour(0), tpm=1) for n in range(2_100)))
    summary = await repository.get_usage_summary(resource="r")
    assert (summary.windows, summary.total_events, summary.limits[0].total) == (1, 2_100, 2_100)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"entity_id": "a b"}, "entity_id"),
        ({"resource": "_default_"}, "resource"),
        ({"entity_id": "a", "window": "weekly"}, "window"),
        ({"entity_id": "a", "start": datetime(2024, 1, 1)}, "start"),  # noqa: DTZ001 - that it has no zone is the point
        ({"entity_id": "a", "end": "2024-01-01"}, "end"),
        ({"entity_id": "a", "start": hour(1), "end": hour(1)}, "end"),
        ({"entity_id": "a", "start": datetime(1969, 12, 31, tzinfo=UTC)}, "start"),
        ({"entity_id": "a", "limit": 0}, "limit"),
        ({"entity_id": "a", "limit": 1001}, "limit"),
        ({"entity_id": "a", "limit": True}, "limit"),
        ({"entity_id": "a", "next": "somewhere"}, "next"),
        ({"entity_id": "a", "next": 7}, "next"),
    ],
    ids=str,
)
async def test_bad_input_is_refused_before_any_request(world: World, wrong: dict[str, Any], field: str) -> None:
    process = await world.process()
    with pytest.raises(ValidationError) as refused:
        await process.repository.get_usage_snapshots(**wrong)
    assert refused.value.field == field
    if not wrong.keys() & {"limit", "next"}:
        with pytest.raises(ValidationError):
            await process.repository.get_usage_summary(**wrong)
    assert process.wire.sent() == []


limits = st.from_regex(r"[A-Za-z][A-Za-z0-9.\-]{0,8}", fullmatch=True).map("l-{}".format)
instants = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - see timezones


MOST = 2**63 - 1  # that a column of a file can have
counts = st.integers(0, MOST)


@given(
    instants,
    st.sampled_from(["hourly", "daily"]),
    st.dictionaries(limits, st.integers(-MOST, MOST)),
    counts,
    counts,
    counts,
)
def test_a_snapshot_comes_back_as_it_was(
    at: datetime, window: Window, consumed: dict[str, int], events: int, refused: int, shadowed: int
) -> None:
    _, start = parse_window_key(window_key(window, at))
    made = UsageSnapshot("e", "r", window, start, consumed, events, refused, shadowed)
    item = usage_item("ns", made)
    assert read_usage(item) == made
    assert read_usage({**item, "_counted": "0001", "ttl": 1}) == made
    assert item["SK"] == keys.sk_usage("r", window_key(window, at))


@given(instants, st.sampled_from(["hourly", "daily"]))
def test_an_instant_lies_in_the_window_that_its_name_says(at: datetime, window: Window) -> None:
    assert window_start(window, int(at.timestamp() * 1000)) == parse_window_key(window_key(window, at))[1]


@given(instants, st.sampled_from(["hourly", "daily"]))
def test_a_window_is_named_by_when_it_begins_in_utc(at: datetime, window: Window) -> None:
    key = window_key(window, at.astimezone(timezone(timedelta(hours=-7))))
    kind, start = parse_window_key(key)
    assert kind == window
    assert window_key(window, start) == key
    assert start <= at < start + (timedelta(hours=1) if window == "hourly" else timedelta(days=1))


@pytest.mark.parametrize("key", ["", "2024", "2024-01-01T14:30:00Z", "2024-13-01", "2024-01-01T14"])
def test_what_names_no_window_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"match|remains"):
        parse_window_key(key)


def test_a_store_in_memory_counts_usage_as_a_file_does(tmp_path: Path) -> None:
    """Over hours, with refusals, corrections, a call that did not take place, and a bucket that was reset."""

    def shown(repository: SyncRepository, clock: ManualClock) -> list[object]:
        limiter = SyncRateLimiter(repository)
        repository.set_resource_defaults("gpt", [Limit.per_day("rpd", 9), Limit.per_minute("tpm", 100)])
        for amount in (1, 2, 7):
            with suppress(RateLimitExceeded), limiter.acquire("a", "gpt", {"rpd": amount, "tpm": 10}) as lease:
                lease.adjust(tpm=-3)
            clock.advance(1200)
        with suppress(ValueError), limiter.acquire("a", "gpt", {"rpd": 1}):
            raise ValueError
        repository.reset_bucket("a", "gpt")
        with limiter.acquire("a", "gpt", {"rpd": 9}):
            pass
        windows: tuple[Window, Window] = ("hourly", "daily")
        summaries = [repository.get_usage_summary(entity_id="a", window=each) for each in windows]
        counts = [(each.windows, each.total_events, each.total_refused) for each in summaries]
        totals = [[(limit.limit_name, limit.total) for limit in each.limits] for each in summaries]
        return [counts, totals, [each.entity_id for each in repository.get_top_usage(resource="gpt")]]

    in_memory, in_file = ManualClock(1_700_000_000_000), ManualClock(1_700_000_000_000)
    found = shown(SyncRepository.in_memory(clock=in_memory), in_memory)
    with SyncRepository.sqlite(tmp_path / "limits.db", clock=in_file) as file:
        assert shown(file, in_file) == found
    assert found[:2] == [[(2, 3, 1), (1, 3, 1)], 2 * [[("rpd", 12), ("tpm", 14)]]]
