"""The stores of both variants have the same names, signatures and docstrings; `just variants` writes all else."""

import inspect
import re
import typing

import pytest

from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.engine import Store, SyncStore
from zae_limiter.engines.memory.store import MemoryStore, SyncMemoryStore

PAIRS: list[tuple[type, type]] = [
    (Store, SyncStore),
    (MemoryStore, SyncMemoryStore),
    (DynamoDBStore, SyncDynamoDBStore),
]
ONLY_ASYNC = {"start"}  # a blocking caller waits for its own request
either = pytest.mark.parametrize(("async_class", "sync_class"), PAIRS, ids=lambda cls: cls.__name__)


def public(cls: type) -> dict[str, object]:
    """What users may call: no leading underscore, and the constructor."""
    found = {name: inspect.getattr_static(cls, name) for name in dir(cls) if name == "__init__" or name[0] != "_"}
    return {name: value for name, value in found.items() if callable_of(value) is not None}


def callable_of(value: object) -> object:
    """The function behind a method or a property."""
    value = value.fget if isinstance(value, property) else value
    return value if inspect.isfunction(value) else None


def variantless(text: object) -> str:
    """A signature or a docstring without what tells the variant."""
    return re.sub(r"\bSync(?=[A-Z])|\b(aio|sync|async|await)\b ?", "", str(text))


def signature(value: object) -> list[tuple[str, object, object, str]]:
    """Names, kinds, defaults and types of the parameters, and the type of the result."""
    function = typing.cast("typing.Callable[..., object]", callable_of(value))
    found = inspect.signature(function)
    parameters = [(p.name, p.kind, p.default, variantless(p.annotation)) for p in found.parameters.values()]
    return [*parameters, ("return", None, None, variantless(found.return_annotation))]


MEMBERS = [
    pytest.param(async_class, sync_class, name, id=f"{async_class.__name__}.{name}")
    for async_class, sync_class in PAIRS
    for name in sorted(public(async_class).keys() & public(sync_class).keys())
]
each = pytest.mark.parametrize(("async_class", "sync_class", "name"), MEMBERS)


@either
def test_each_has_every_public_name_of_the_other(async_class: type, sync_class: type) -> None:
    assert public(async_class).keys() - ONLY_ASYNC == public(sync_class).keys()
    assert len(public(async_class)) > 1


@each
def test_the_signatures_are_the_same(async_class: type, sync_class: type, name: str) -> None:
    assert signature(public(async_class)[name]) == signature(public(sync_class)[name])


@each
def test_what_is_said_of_them_is_the_same(async_class: type, sync_class: type, name: str) -> None:
    said = [inspect.getdoc(callable_of(public(cls)[name])) or "" for cls in (async_class, sync_class)]
    assert variantless(said[0]) == variantless(said[1])
    if not name.startswith("__"):
        assert said[0]


@each
def test_they_are_the_same_kind_of_thing_and_no_sync_one_has_to_be_awaited(
    async_class: type, sync_class: type, name: str
) -> None:
    async_member, sync_member = public(async_class)[name], public(sync_class)[name]
    assert type(async_member) is type(sync_member)
    assert not inspect.iscoroutinefunction(callable_of(sync_member))
