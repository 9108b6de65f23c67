"""How often writers that know nothing of each other get in each other's way.

Lives here: 20 of them on one bucket, at three loads. Never: the load itself (offered).
"""

from zae_limiter import Limit

from .offered import writes_per_admission
from .report import Row

TASKS = 20
RATE = 50
SECONDS = 120.0
LOADS = ((0.5, 1.3), (0.95, 1.1), (2.0, 2.0))


def measure() -> list[Row]:
    return [
        Row(f"offered {load:.0%} of the rate: writes of each admission", _writes(load), at_most=at_most)
        for load, at_most in LOADS
    ]


def _writes(load: float) -> float:
    limit = Limit.per_second("rps", RATE)
    return writes_per_admission([limit], processes=TASKS, per_second=load * RATE, seconds=SECONDS)
