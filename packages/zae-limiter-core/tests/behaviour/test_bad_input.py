"""Bad input is refused before anything is written, in both variants."""

from collections.abc import Callable
from typing import Any

import pytest

from support.core.owners import owner_of
from support.core.worlds import World, again, take
from zae_limiter import Limit, RateLimiter, ValidationError
from zae_limiter.exceptions import InvalidIdentifierError, InvalidNameError

RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 6000)

IDS = ["a b", " ", "", "x" * 257, " e", "e\n", "\u200b", None, 7]
AMOUNTS = [-1, 0.5, 1.0, True, False, "1", None]


async def refused(
    world: World, act: Callable[[RateLimiter], Any], error: type[ValidationError], match: str = ""
) -> None:
    """The act raises, and nothing was written nor stays consumed."""
    limiter, wire = await world.process()
    await limiter.set_system_defaults([RPM, TPM])
    await take(limiter, "e", "r", rpm=1)
    wire.sent()
    with pytest.raises(error, match=match):
        async with act(limiter):
            pytest.fail("the block ran")
    assert {"Put", "Update", "Transact"} & set(wire.sent()) == set()
    assert await limiter.available("e", "r") == {"rpm": 59, "tpm": 6000}


@pytest.mark.parametrize("bad", IDS, ids=repr)
async def test_a_bad_entity_id_is_refused(world: World, bad: Any) -> None:
    await refused(world, lambda limiter: limiter.acquire(bad, "r", {"rpm": 1}), InvalidIdentifierError, "entity_id")


@pytest.mark.parametrize("bad", [*IDS[:3], "x" * 129, "_default_", "a\u00a0b", None], ids=repr)
async def test_a_bad_resource_is_refused(world: World, bad: Any) -> None:
    await refused(world, lambda limiter: limiter.acquire("e", bad, {"rpm": 1}), InvalidIdentifierError, "resource")


@pytest.mark.parametrize("bad", AMOUNTS, ids=repr)
async def test_a_bad_amount_is_refused(world: World, bad: Any) -> None:
    consume = {"rpm": 1, "tpm": bad}
    await refused(world, lambda limiter: limiter.acquire("e", "r", consume), ValidationError, r"consume\['tpm'\]")


async def test_an_amount_of_a_limit_that_there_is_not_is_refused(world: World) -> None:
    consume = {"rpm": 1, "rps": 1}
    await refused(world, lambda limiter: limiter.acquire("e", "r", consume), ValidationError, r"\(known: rpm, tpm\)")


async def test_nothing_to_consume_is_refused(world: World) -> None:
    await refused(world, lambda limiter: limiter.acquire("e", "r", {}), ValidationError, "at least one limit")


@pytest.mark.parametrize("bad", [[], [RPM, RPM], ["rpm"]], ids=str)
async def test_bad_limits_of_a_call_are_refused(world: World, bad: Any) -> None:
    await refused(world, lambda limiter: limiter.acquire("e", "r", {"rpm": 1}, bad), ValidationError, "limits")


@pytest.mark.parametrize("bad", [["rpm"], "rpm", 5, None], ids=repr)
async def test_what_maps_no_limits_to_amounts_is_refused(world: World, bad: Any) -> None:
    await refused(world, lambda limiter: limiter.acquire("e", "r", bad), ValidationError, "must map limits to amounts")


@pytest.mark.parametrize("bad", [RPM, "rpm", 5], ids=["one limit", "a name", "a number"])
async def test_what_is_no_list_of_limits_is_refused(world: World, bad: Any) -> None:
    act = lambda limiter: limiter.acquire("e", "r", {"rpm": 1}, bad)  # noqa: E731
    await refused(world, act, ValidationError, "must be a list of limits")


async def test_a_bad_policy_is_refused(world: World) -> None:
    bad: Any = "deny"
    act = lambda limiter: limiter.acquire("e", "r", {"rpm": 1}, on_unavailable=bad)  # noqa: E731
    await refused(world, act, ValidationError, "on_unavailable")


async def test_without_any_limits_an_acquire_is_refused_and_told_how_to_set_them(world: World) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError, match="set_system_defaults"):
        await take(limiter, "e", "r", rpm=1)
    assert wire.sent() == ["BatchGet"]
    with pytest.raises(ValidationError, match="no limits are configured"):
        await limiter.available("e", "r")


@pytest.mark.parametrize("name", ["wcu", "total_events", "total_refused", "total_shadowed", "a#b", ""])
async def test_no_limit_has_a_reserved_name(world: World, name: str) -> None:
    limiter, _ = await world.process()
    with pytest.raises(InvalidNameError):
        await limiter.set_system_defaults([Limit.per_minute(name, 1)])


async def test_the_writers_refuse_bad_input_before_they_write(world: World) -> None:
    limiter, wire = await world.process()
    repository = limiter.repository
    nothing: list[Limit] = []
    calls: list[Callable[[], Any]] = [
        lambda: repository.set_system_defaults(nothing),
        lambda: repository.set_system_defaults([RPM], "deny"),  # type: ignore[arg-type]
        lambda: repository.set_resource_defaults("_default_", [RPM]),
        lambda: repository.set_resource_defaults("r", [RPM, RPM]),
        lambda: repository.set_limits("a b", [RPM]),
        lambda: repository.set_limits("e", [RPM], "a b"),
        lambda: repository.get_limits("", "r"),
        lambda: repository.resolve_limits("e", "_default_"),
        lambda: repository.create_entity("a b"),
        lambda: repository.create_entity("e", parent_id="e"),
        lambda: repository.create_entity("e", cascade=True),
        lambda: repository.create_entity("e", metadata={"n": object()}),  # type: ignore[dict-item]
        lambda: repository.namespace("a b"),
    ]
    for call in calls:
        with pytest.raises(ValidationError):
            await call()
    assert wire.sent() == []


@pytest.mark.parametrize("bad", ["no", 1, None, []], ids=repr)
async def test_what_is_neither_true_nor_false_is_refused(world: World, bad: Any) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    wire.sent()
    with pytest.raises(ValidationError, match="rollback"):
        limiter.acquire("e", "r", {"rpm": 1}, rollback=bad)
    with pytest.raises(ValidationError, match="cascade"):
        await limiter.create_entity("e", parent_id="p", cascade=bad)
    if bad:
        with pytest.raises(ValidationError, match="cascade"):
            limiter.acquire("e", "r", {"rpm": 1}, cascade=bad)
    with pytest.raises(ValidationError, match="shadow"):
        again(limiter, shadow=bad)
    assert wire.sent() == []


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("create_entity", {"entity_id": "e", "metadata": ["x"]}),
        ("set_many_limits", {"changes": [("e", "r")]}),
        ("delete_many_limits", {"places": None}),
        ("put_configs", {"configs": [("e", "r")]}),
        ("get_configs", {"places": [7]}),
        ("get_configs", {"places": None}),
        ("put_configs", {"configs": {("e", "r"): {"limits": []}}}),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
async def test_what_is_no_map_or_list_is_refused(world: World, method: str, arguments: dict[str, Any]) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    wire.sent()
    with pytest.raises(ValidationError, match=[*arguments][-1]):
        await getattr(owner_of(method, limiter.repository), method)(**arguments)
    assert wire.sent() == []


async def test_a_limit_may_have_the_name_of_pythons_first_argument(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_minute("self", 60)])
    async with limiter.acquire("e", "r", {"self": 1}) as lease:
        await lease.consume(self=2)
        await lease.adjust(self=3)
        await lease.release(self=1)
    assert await limiter.available("e", "r") == {"self": 55}


LARGEST: dict[str, Any] = {"name": "é" * 256, "metadata": {f"{n:02d}".ljust(128, "k"): "v" * 199 for n in range(50)}}
TOO_LARGE: list[tuple[dict[str, Any], str]] = [
    ({"name": "n" * 257}, "^name .*: has 257 characters: at most 256$"),
    ({"name": "\ud800"}, "^name .*: must be characters that UTF-8 has$"),
    ({"metadata": dict.fromkeys(map(str, range(51)), "v")}, "^number of metadata keys 51: at most 50: keep the rest"),
    ({"metadata": {"": "v"}}, "^metadata key '': must not be empty$"),
    ({"metadata": {"k" * 129: "v"}}, "^metadata key .*: has 129 characters: at most 128$"),
    ({"metadata": {"key": "v" * 1025}}, r"^metadata\['key'\] .*: has 1025 characters: at most 1024$"),
    ({"metadata": {"key": "\udfff"}}, r"^metadata\['key'\] .*: must be characters that UTF-8 has$"),
    ({"metadata": {str(n): "v" * 1024 for n in range(16)}}, "^bytes of metadata 16406: at most 16384, of all keys"),
    ({"metadata": {str(n): "é" * 1000 for n in range(10)}}, "^bytes of metadata 20010: at most 16384, of all keys"),
]


async def test_names_and_metadata_of_any_size_within_the_bounds_are_kept(world: World) -> None:
    limiter, _ = await world.process()
    made = await limiter.create_entity("e", **LARGEST)
    assert (made.name, made.metadata) == (LARGEST["name"], LARGEST["metadata"])
    await limiter.create_entity("f", metadata={str(n): "v" * 1024 for n in range(15)})
    assert await limiter.repository.update_entity("f", **LARGEST) == await limiter.get_entity("f")


@pytest.mark.parametrize(("fields", "why"), TOO_LARGE, ids=lambda each: each if isinstance(each, str) else "")
async def test_names_and_metadata_beyond_the_bounds_are_refused(world: World, fields: dict[str, Any], why: str) -> None:
    limiter, wire = await world.process()
    await limiter.create_entity("there")
    wire.sent()
    with pytest.raises(ValidationError, match=why):
        await limiter.create_entity("e", **fields)
    with pytest.raises(ValidationError, match=why):
        await limiter.repository.update_entity("there", **fields)
    assert wire.sent() == []
