"""The values that callers make, and the ways to open a repository."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

from zae_limiter import Limit, Options, Override, SyncRateLimiter, SyncRepository, ZAELimiterError
from zae_limiter.maintenance import HandledEvent, ProvisionerLock, ProvisionerState, StoredConfig, VersionRecord

from ..arguments import SOUND
from ..batches import Surface
from ..judging import Tally, judging
from ..junk import python_junk

NOWHERE = "http://127.0.0.1:1"  # nobody answers there
MAKERS: tuple[Callable[..., Any], ...] = (
    Limit,
    Limit.custom,
    Limit.per_second,
    Limit.per_day,
    Options,
    HandledEvent,
    Override,
    ProvisionerLock,
    ProvisionerState,
    StoredConfig,
    VersionRecord,
)
OPENERS: tuple[Callable[..., Any], ...] = (SyncRepository.in_memory, SyncRepository.open)
WORDS = ("limits", "on_unavailable", "handled", "lock")
SOUND_HERE: Mapping[str, st.SearchStrategy[Any]] = {
    **{name: SOUND[name] for name in WORDS if name in SOUND},
    "name": st.sampled_from(["rpm", "self"]),
    **dict.fromkeys(["capacity", "refill_amount"], st.sampled_from([1, 60, 10**15])),
    "burst": st.sampled_from([60, 10**15]),
    "refill_period": st.sampled_from([1, 3600]),
    "shadow": st.booleans(),
    "prefetch": st.sampled_from([0, 1, 0.5, 3600.0]),
    "weights": st.sampled_from([{}, {"input": 1, "cached": 0.1, "output": 4}]),
    "alert": st.sampled_from([(), (80,), [80, 95]]),
    "until_ms": st.sampled_from([1, 10**13]),
    "transport": st.sampled_from(["http", None]),
    "region": st.sampled_from([None, "eu-west-1"]),
    "namespace": st.sampled_from([None, "tenant"]),
    "clock": st.none(),
}
TIMES = {"connect_timeout": 0.05, "read_timeout": 0.05}


@st.composite
def makings(draw: st.DrawFn) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A value or a repository, and what it is made with."""
    maker = draw(st.sampled_from([*MAKERS, *OPENERS]))
    opens = maker in OPENERS
    names = [name for name, each in inspect.signature(Options if opens else maker).parameters.items()]
    fixed = {"clock", *TIMES, "create_table"} if opens else {"clock"}
    chosen = draw(st.lists(st.sampled_from([name for name in names if name not in fixed]), unique=True))
    needed = [name for name, each in inspect.signature(maker).parameters.items() if _is_needed(each)]
    arguments = {name: draw(_value(name)) for name in {**dict.fromkeys(needed), **dict.fromkeys(chosen)}}
    if maker == SyncRepository.open:
        arguments = {"endpoint_url": NOWHERE, "region": "eu-west-1", **TIMES, **arguments}
    return maker, arguments


def _is_needed(parameter: inspect.Parameter) -> bool:
    named = parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
    return named and parameter.default is parameter.empty


def _value(name: str) -> st.SearchStrategy[Any]:
    sound = SOUND_HERE.get(name)
    return python_junk if sound is None else sound | sound | python_junk


@contextmanager
def opened() -> Iterator[Surface]:
    """Values, and repositories in memory or of an address where nobody answers."""

    def feed(drawn: tuple[Callable[..., Any], dict[str, Any]], tally: Tally) -> None:
        maker, arguments = drawn
        with judging(tally, ZAELimiterError):
            made = maker(**arguments)
            if isinstance(made, SyncRepository):
                SyncRateLimiter(made, default_limits=[Limit.per_minute("rpm", 1)]).close()

    yield Surface(makings(), feed)
