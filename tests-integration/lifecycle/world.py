"""A store, the fault proxies before it, and the lives that run over them.

Lives here: the choice of a life's mode and network, and its result. Never: what is done to a process (kinds), what is
checked after it (verify).
"""

import itertools
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType

from support.integration.emulators import dynoxide, running
from zae_limiter import Limit, SyncRepository

from .life import AWS_ENVIRONMENT, Life
from .place import REGION, TABLE, TEN_YEARS, Place
from .proxy_control import ProxyControl
from .verify import verify

KINDS = (
    "interrupted_run",
    "returned",
    "cancelled",
    "closed",
    "closed_idle",
    "close_cancelled",
    "abandoned_loop",
    "forked",
    "forked_async",
    "forked_workers",
    "signalled",
    "signalled_threads",
    "signalled_everywhere",
    "two_loops",
    "loops_in_threads",
    "stopped",
    "killed",
)


@dataclass(frozen=True, slots=True)
class Result:
    """How one life went; ``left_behind`` tokens were taken by calls that were cut off, and not given back."""

    kind: str
    number: int
    mode: str
    network: str
    resource: str
    violations: Sequence[str]
    hung: bool
    ended_in: float
    left_behind: int
    seconds: float

    def __str__(self) -> str:
        head = f"{self.kind} {self.number} ({self.mode}, {self.network}, {self.resource})"
        head += f": ended in {self.ended_in:.2f} s, {self.left_behind} left behind"
        return "\n".join([head, *(f"    {line}" for each in self.violations for line in each.splitlines())])


def kind(name: str) -> ModuleType:
    """The module of a kind of life."""
    return import_module(f"{__package__}.kinds.{name}")


class World:
    """A store, and a fault proxy for each of the lives that run at once."""

    def __init__(self, store_url: str, proxies: Sequence[ProxyControl], scratch: Path, stop_seconds: float) -> None:
        self._store_url = store_url
        self._scratch = scratch
        self._stop_seconds = stop_seconds
        self._width = len(proxies)
        self._proxies: SimpleQueue[ProxyControl] = SimpleQueue()
        for proxy in proxies:
            self._proxies.put(proxy)
        self._repository = _made_ready(store_url)

    def run(self, names: Sequence[str], times: Sequence[int]) -> Iterator[Result]:
        """Run the lives of these kinds and numbers; the results in order."""
        with ThreadPoolExecutor(self._width) as threads:
            plans = itertools.product(times, names)
            yield from threads.map(lambda plan: self.run_one(plan[1], plan[0]), plans)

    def run_one(self, name: str, number: int) -> Result:
        """Run one life: its random draws are the same for the same kind and number."""
        proxy, begun = self._proxies.get(), time.monotonic()
        try:
            life = self._prepared(name, number, proxy)
            kind(name).supervise(life)
            left_behind = verify(life, self._store_url)
        finally:
            self._proxies.put(proxy)
        place = life.place
        return Result(
            *(name, number, place.mode, life.network, place.resource, life.violations, life.hung),
            *(life.ended_in, left_behind, time.monotonic() - begun),
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._repository.close()

    def _prepared(self, name: str, number: int, proxy: ProxyControl) -> Life:
        """A life; modes and networks take turns, so that a few lives see most of them."""
        chance, module = random.Random(f"{name} {number}"), kind(name)
        pairs = list(itertools.product(module.MODES, module.NETWORKS))
        random.Random(name).shuffle(pairs)
        mode, network = pairs[number % len(pairs)]
        entity_id = f"{name}-{number}"
        parent = self._with_parent(entity_id) if chance.random() < 0.3 else None
        scratch = Path(tempfile.mkdtemp(prefix=f"{entity_id}-", dir=self._scratch))
        place = Place(
            endpoint_url=proxy.url,
            ledger=str(scratch / "ledger.txt"),
            entity_id=entity_id,
            resource=chance.choice(("large", "large", "small")),
            seed=number,
            healthy=network in {"healthy", "slow"},
            mode=mode,
            more={"parent": parent},
        )
        Path(place.ledger).touch()
        gives_back = place.healthy and mode in getattr(module, "GIVES_BACK", ())
        noise = re.compile(getattr(module, "NOISE", r"(?!)"))
        return Life(name, place, proxy, network, scratch, self._stop_seconds, gives_back, noise)

    def _with_parent(self, entity_id: str) -> str:
        parent = f"parent-of-{entity_id}"
        self._repository.create_entity(parent)
        self._repository.create_entity(entity_id, parent_id=parent, cascade=True)
        return parent


def _made_ready(store_url: str) -> SyncRepository:
    """The table with two resources of large and small limits; ``all`` refills in ten years, ``rate`` all the time."""
    repository = SyncRepository.open(stack=TABLE, endpoint_url=store_url, region=REGION, create_table=True)
    for resource, capacity, rate in (("large", 1_000_000, 100_000), ("small", 300, 200)):
        limits = [
            Limit.custom("all", capacity, refill_amount=1, refill_period=TEN_YEARS),
            Limit.per_second("rate", rate),
        ]
        repository.set_resource_defaults(resource, limits)
    return repository


@contextmanager
def world(*, at_once: int = 2, stop_seconds: float = 2.0) -> Iterator[World]:
    """A world on this machine; ``Unavailable`` where the store cannot be had."""
    os.environ.update(AWS_ENVIRONMENT)
    with ExitStack() as stack:
        store_url = stack.enter_context(running(dynoxide()))
        proxies = [stack.enter_context(ProxyControl(store_url, seed)) for seed in range(at_once)]
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lives-")))
        made = World(store_url, proxies, scratch, stop_seconds)
        try:
            yield made
        finally:
            made.close()
