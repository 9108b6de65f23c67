"""Whatever operation of an event fails: the reply comes and is true, and the next event ends as it was asked to."""

from typing import Any

import pytest

from support.provisioner.provisions import EVERY_LEVEL, World, limits, manifest
from support.provisioner.stack_replies import Replies, response_url
from support.provisioner.stack_sender import OWNER, Stack, owner
from zae_limiter.operations.errors import NotApplied
from zae_limiter_manifest import LimitsManifest
from zae_limiter_provisioner.cloudformation import handle
from zae_limiter_provisioner.stack_events import StackEvent

AFTER = manifest(
    resources={"gpt-4": limits(51)},
    entities={"user-1": {"resources": {"gpt-4": limits(20)}}, "user-2": {"resources": {"gpt-4": limits(2)}}},
)
ELSEWHERE = LimitsManifest.from_dict({**AFTER.to_dict(), "namespace": "tenant-beta"})
NOTHING = manifest()
EVENTS = {
    "Create": ("Create", EVERY_LEVEL),
    "Update": ("Update", AFTER),
    "move": ("Update", ELSEWHERE),
    "Delete": ("Delete", EVERY_LEVEL),
}


def prepared(name: str, replies: Replies, patch: pytest.MonkeyPatch) -> tuple[Stack, dict[str, Any]]:
    """A stack as it is before the event, and the event."""
    stack = Stack(World(), replies, patch)
    if name != "Create":
        stack.do("Create")
    stack.store.seen.clear()
    return stack, stack.event(*EVENTS[name])


def operations_of(name: str) -> int:
    with response_url() as replies, pytest.MonkeyPatch.context() as patch:
        stack, event = prepared(name, replies, patch)
        assert handle(stack.world.table(stack.store), StackEvent.of(event)).ok
        return len(stack.store.seen)


STEPS = [(name, at) for name in EVENTS for at in range(operations_of(name))]
PROBLEMS = {"refused": NotApplied("refused"), "a mistake of ours": RuntimeError("a mistake of ours")}


@pytest.fixture(params=STEPS, ids=lambda step: f"{step[0]}-{step[1]}")
def failed(
    request: pytest.FixtureRequest, problem: str, replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Stack, dict[str, Any], dict[str, Any]]:
    """An event one of whose operations failed: which, the stack, the event, the reply."""
    name, at = request.param
    stack, event = prepared(name, replies, monkeypatch)

    def fault(_: object) -> None:
        if len(stack.store.seen) == at + 1:
            raise PROBLEMS[problem]

    stack.store.fault = fault
    told = stack.send(event)
    assert told["Reason"] if told["Status"] == "FAILED" else is_done(name, stack)
    stack.physical_id = told["PhysicalResourceId"]
    stack.store.fault = lambda _: None
    return name, stack, event, told


pytestmark = pytest.mark.parametrize("problem", PROBLEMS)
Failed = tuple[str, Stack, dict[str, Any], dict[str, Any]]


def live(world: World, namespace: str = "tenant-alpha") -> LimitsManifest:
    """What stands there; nothing where it was never registered."""
    return world.ask("export", namespace).manifest or LimitsManifest(namespace)


def is_done(name: str, stack: Stack) -> bool:
    """Whether there is just what the event asks for."""
    wanted = NOTHING if name == "Delete" else EVENTS[name][1]
    return live(stack.world, wanted.namespace) == wanted


@pytest.mark.long(keep=24)
def test_its_reply_and_that_to_the_same_event_again_are_true(failed: Failed) -> None:
    name, stack, event, _ = failed
    if stack.send(event)["Status"] == "SUCCESS":
        assert is_done(name, stack)
    elif name == "move":
        assert live(stack.world, "tenant-beta") == LimitsManifest("tenant-beta")


@pytest.mark.long(keep=24)
def test_the_next_event_ends_as_it_asks(failed: Failed) -> None:
    name, stack, _, told = failed
    kind, after = ("Delete", NOTHING) if name in ("Create", "Delete") else ("Update", EVERY_LEVEL)
    assert stack.do(kind, EVERY_LEVEL)["Status"] == "SUCCESS"
    assert live(stack.world) == after
    if name == "move" and told["Status"] == "FAILED":
        assert live(stack.world, "tenant-beta") == LimitsManifest("tenant-beta")
    stack.world.repository()  # a Create that failed at once has not registered it
    assert owner(stack.world) == (OWNER if after.managed_set() else None)
