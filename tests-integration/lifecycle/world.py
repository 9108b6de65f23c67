"""A store, the weathers before it, and the lives that are lived there.

Lives here: which life is lived where, and its verdict. Never: what is done to a process (kinds), what is wrong (judge).
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

from .judge import judge
from .life import AWS_ENVIRONMENT, Life
from .place import REGION, TABLE, TEN_YEARS, Place
from .sky import Sky

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
class Verdict:
    """How one life went; ``left_behind`` tokens were taken by calls that were cut off, and not given back."""

    kind: str
    number: int
    way: str
    weather: str
    resource: str
    wrongs: Sequence[str]
    hung: bool
    ended_in: float
    left_behind: int
    seconds: float

    def __str__(self) -> str:
        head = f"{self.kind} {self.number} ({self.way}, {self.weather}, {self.resource})"
        head += f": ended in {self.ended_in:.2f} s, {self.left_behind} left behind"
        return "\n".join([head, *(f"    {line}" for wrong in self.wrongs for line in wrong.splitlines())])


def kind(name: str) -> ModuleType:
    """The module of a kind of life."""
    return import_module(f"{__package__}.kinds.{name}")


class World:
    """A store and as many weathers as lives are lived at once."""

    def __init__(self, store_url: str, skies: Sequence[Sky], scratch: Path, stop_seconds: float) -> None:
        self._store_url = store_url
        self._scratch = scratch
        self._stop_seconds = stop_seconds
        self._width = len(skies)
        self._skies: SimpleQueue[Sky] = SimpleQueue()
        for sky in skies:
            self._skies.put(sky)
        self._repository = _made_ready(store_url)

    def live(self, names: Sequence[str], times: Sequence[int]) -> Iterator[Verdict]:
        """The lives of these kinds and numbers, as they end."""
        with ThreadPoolExecutor(self._width) as threads:
            plans = itertools.product(times, names)
            yield from threads.map(lambda plan: self.one(plan[1], plan[0]), plans)

    def one(self, name: str, number: int) -> Verdict:
        """One life, the same for the same kind and number as far as it is up to us."""
        sky, begun = self._skies.get(), time.monotonic()
        try:
            life = self._born(name, number, sky)
            kind(name).attend(life)
            left_behind = judge(life, self._store_url)
        finally:
            self._skies.put(sky)
        place = life.place
        return Verdict(
            *(name, number, place.way, life.weather, place.resource, life.wrongs, life.hung),
            *(life.ended_in, left_behind, time.monotonic() - begun),
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._repository.close()

    def _born(self, name: str, number: int, sky: Sky) -> Life:
        """Each way and each weather come in turns, so that few lives see most of them."""
        chance, module = random.Random(f"{name} {number}"), kind(name)
        pairs = list(itertools.product(module.WAYS, module.WEATHERS))
        random.Random(name).shuffle(pairs)
        way, weather = pairs[number % len(pairs)]
        entity_id = f"{name}-{number}"
        parent = self._with_parent(entity_id) if chance.random() < 0.3 else None
        scratch = Path(tempfile.mkdtemp(prefix=f"{entity_id}-", dir=self._scratch))
        place = Place(
            endpoint_url=sky.url,
            ledger=str(scratch / "ledger.txt"),
            entity_id=entity_id,
            resource=chance.choice(("roomy", "roomy", "tight")),
            seed=number,
            fair=weather in {"fair", "slow"},
            way=way,
            more={"parent": parent},
        )
        Path(place.ledger).touch()
        gives_back = place.fair and way in getattr(module, "GIVES_BACK", ())
        noise = re.compile(getattr(module, "NOISE", r"(?!)"))
        return Life(name, place, sky, weather, scratch, self._stop_seconds, gives_back, noise)

    def _with_parent(self, entity_id: str) -> str:
        parent = f"mother-of-{entity_id}"
        self._repository.create_entity(parent)
        self._repository.create_entity(entity_id, parent_id=parent, cascade=True)
        return parent


def _made_ready(store_url: str) -> SyncRepository:
    """The table and its limits: one that ten years refill, and one that is refilled all the time."""
    repository = SyncRepository.open(stack=TABLE, endpoint_url=store_url, region=REGION, create_table=True)
    for resource, standing, rate in (("roomy", 1_000_000, 100_000), ("tight", 300, 200)):
        limits = [
            Limit.custom("all", standing, refill_amount=1, refill_period=TEN_YEARS),
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
        skies = [stack.enter_context(Sky(store_url, seed)) for seed in range(at_once)]
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lives-")))
        made = World(store_url, skies, scratch, stop_seconds)
        try:
            yield made
        finally:
            made.close()
