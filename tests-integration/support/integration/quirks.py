"""What lives here: where a target counts, or bears, something else than AWS does.
What never does: what a target can (targets).
"""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Quirks:
    """What tests expect of a target; the defaults are AWS's rules, and loads for a store over the network."""

    # Units of the table, then of its indexes. A transaction is charged double; emulators do not do so everywhere.
    credit_units: tuple[float, float] = (4, 2)  # one bucket and one audit event
    two_buckets_units: tuple[float, float] = (4, 12)
    two_items_units: float = 4  # small ones, on no index
    counts_transactions: bool = True  # by a rule that holds for two writes and for fifty; and reads of nothing
    thousands: bool = True  # transactions over a thousand items take no half minute

    acquires: int = 4_000  # by three processes, whose stream is then read
    streamed: int = 1_000  # acquires whose records functions get
    entities: int = 5_000  # of one manifest
    purged: int = 10_000  # items of one namespace
    changes: int = 1_000  # of limits in one call, a transaction for each 25; a busy emulator times out over its locks
    clock_steps: int = 200
    deaths: tuple[int, ...] = (4, 13, 27)  # after how many writes a process that splits a bucket is killed
    migrator_deaths: tuple[int, ...] = (0, 9, 22)  # the same of one that migrates the table


AS_AWS: Final = Quirks()
IN_PROCESS: Final = Quirks(clock_steps=1_000)
EMBEDDED: Final = Quirks(streamed=300)  # moto does some twenty requests a second
DYNAMODB_LOCAL: Final = Quirks(
    two_buckets_units=(2, 6),
    two_items_units=2,
    counts_transactions=False,
    thousands=False,
    acquires=1_500,
    purged=2_000,  # slow: stores in process show ten thousand, and dynoxide a thousand changes
    changes=200,
)
# DynamoDB Local behind a gateway in Python.
LOCALSTACK: Final = replace(DYNAMODB_LOCAL, acquires=2_000, streamed=300, entities=500, changes=100)
DYNOXIDE: Final = Quirks(
    credit_units=(4, 1),
    two_buckets_units=(4, 6),
    acquires=1_500,  # the more records a stream has, the longer a write takes
    entities=1_000,
    purged=4_000,  # ten thousand take it half a minute of CPU
    deaths=(1, 8, 20),
    migrator_deaths=(1, 6, 17),
)
