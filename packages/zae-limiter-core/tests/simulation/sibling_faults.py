"""Deliberate faults of calls that one bucket refuses, and of others that meet what such a call gives back.

Lives here: rules of taking together made wrong. Never: which of them are to be found (mutants).
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from zae_limiter.flows.acquire import acquire, lease, taking_together
from zae_limiter.flows.steps import Flow

Fault = Callable[[], AbstractContextManager[Any]]


def _told_at_once(*_: Any) -> Flow[bool]:
    """Nobody asks again."""
    yield from ()
    return False


def _of(*patches: tuple[Any, str, Any]) -> Fault:
    @contextmanager
    def faulty() -> Any:
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(patch.object(*each))
            yield

    return faulty


TOLD: Final = tuple((module, "until_decided", _told_at_once) for module in (acquire, lease))
TOGETHER: Final = (taking_together, "_was_short_lately", lambda *_: False)

SIBLING_FAULTS: Mapping[str, tuple[Fault, int]] = {
    "siblings refused for what a spent key takes and gives back": (_of(*TOLD, TOGETHER), 61),
    "a refusal beside what comes back, told at once": (_of(*TOLD), 61),
}
