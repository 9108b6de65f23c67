"""A replay decides past calls again.

Lives here: the engine, on one core, with calls that it gets one by one. Never: the read of calls or of limits.
"""

from time import process_time

from zae_limiter import Limit
from zae_limiter.maintenance import BucketLimits, Replay

from .measure import pin_client
from .report import Row

CALLS, ENTITIES = 1_000_000, 1_000
RESOURCE, BEGIN_MS = "gpt-4", 1_764_028_800_000
LIMITS = (Limit.per_minute("rpm", 50), Limit.per_minute("tpm", 100_000))
AMOUNTS = {"rpm": 1, "tpm": 1_500}


def measure() -> list[Row]:
    pin_client()
    replay = Replay(lambda entity_id, resource: [BucketLimits(entity_id, resource, LIMITS)])
    names = [f"user-{number}" for number in range(ENTITIES)]
    begin, refused = process_time(), 0
    for number in range(CALLS):
        if replay.decide(BEGIN_MS + number, names[number % ENTITIES], RESOURCE, AMOUNTS).refused_by:
            refused += 1
    seconds = process_time() - begin
    assert 0 < refused < CALLS, "the limits are to refuse some of the calls"
    return [
        Row("decisions per second, of two limits", CALLS / seconds, at_least=10**7 / 60),
        Row("10 million decisions", 10 * seconds, "s", at_most=60),
    ]
