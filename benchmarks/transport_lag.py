"""How late an event loop is while a slow provider refreshes credentials every two seconds.

Lives here: the provider, a constant load, the lag with and without refreshes, in turns. Never: a network.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from .measure import percentile
from .report import Row
from .transport_server import limiter_of, serving, table_and_answer

if TYPE_CHECKING:
    from zae_limiter import RateLimiter

CALLERS = 10
PAUSE = 0.01  # seconds between two acquires of a caller
LAG_PAUSE = 0.005
SECONDS = 4.5
ROUNDS = 6
STEADY, REFRESHED = "steady", "refreshed"  # profiles
# Half of the life of the credentials is over after two seconds: then they are refreshed.
PROVIDER = """\
echo refreshed >> {log}
sleep 0.3
date -u -d '4 seconds' '+{{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c", \
"Expiration": "%Y-%m-%dT%H:%M:%S.%3NZ"}}'
"""


def lag() -> list[Row]:
    """The lateness of the event loop with credentials that never end, and with short-lived ones."""
    with tempfile.TemporaryDirectory() as folder, _profiles(Path(folder)) as refreshes:
        late = asyncio.run(_lag())
        times = len(refreshes.read_text().splitlines())
    high = {name: median(percentile(part, 99) for part in parts) for name, parts in late.items()}
    return [
        Row("event loop's lag, p99: with / without refreshes", high[REFRESHED] / high[STEADY], at_most=2),
        *(Row(f"event loop's lag, {name} credentials: p99", high[name] * 1000, "ms") for name in (STEADY, REFRESHED)),
        Row("refreshes meanwhile", times, at_least=ROUNDS * SECONDS // 3),
    ]


@contextmanager
def _profiles(folder: Path) -> Iterator[Path]:
    """The two profiles in the configuration of AWS. The file has a line for each refresh."""
    log, provider, config = folder / "refreshes", folder / "provider.sh", folder / "config"
    provider.write_text(PROVIDER.format(log=log))
    steady = f"[profile {STEADY}]\naws_access_key_id = a\naws_secret_access_key = b\n"
    config.write_text(f"{steady}[profile {REFRESHED}]\ncredential_process = sh {provider}\n")
    os.environ["AWS_CONFIG_FILE"] = str(config)
    log.touch()
    yield log


async def _lag() -> dict[str, list[list[float]]]:
    table, answer = table_and_answer(CALLERS)
    late: dict[str, list[list[float]]] = {STEADY: [], REFRESHED: []}
    with serving(answer) as server:
        async with (
            limiter_of(table, server.url, STEADY) as steady,
            limiter_of(table, server.url, REFRESHED) as refreshed,
        ):
            for _ in range(ROUNDS):
                for name, limiter in ((STEADY, steady), (REFRESHED, refreshed)):
                    await _load(limiter, 0.5)  # the credentials may have expired meanwhile
                    _, *found = await asyncio.gather(_load(limiter, SECONDS), _lateness(SECONDS))
                    late[name] += found
    return late


async def _load(limiter: "RateLimiter", seconds: float) -> None:
    from .canned import entity, take

    until = time.perf_counter() + seconds

    async def caller(entity_id: str) -> None:
        while time.perf_counter() < until:
            await take(limiter, entity_id)
            await asyncio.sleep(PAUSE)

    await asyncio.gather(*(caller(entity(number)) for number in range(CALLERS)))


async def _lateness(seconds: float) -> list[float]:
    late: list[float] = []
    until = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < until:
        await asyncio.sleep(LAG_PAUSE)
        late.append(time.perf_counter() - begun - LAG_PAUSE)
    return late
