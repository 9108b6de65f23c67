"""What one caller holds, kept apart from the limiter's own records.

Lives here: an account for each lease. Never: balances of buckets (oracle).
"""

from collections.abc import Mapping

from .bucket_items import SLOTS
from .kernel import Violation
from .waits import Waits

Place = tuple[str, str]


class Account:
    """What confirmed writes took for a caller and what was given back for him, in millitokens by bucket and limit.

    What shadow limits only counted for him is ``counted``, apart. ``expected`` is what the caller himself believes to
    hold when all is over; ``None`` where he does not know.
    ``waits`` has the sleeps of a caller who asks with a budget of time.
    ``keeps``: the process is to write later what was certainly not written of his corrections.
    ``uncertain``: a correction was lost with its answer, or came to take more when the bucket was gone.
    ``asked_again``: how often it was refused beside what came back, and asked again. ``granted``: it has a lease.
    """

    def __init__(self, waits: Waits | None = None) -> None:
        self.waits = waits
        self.held: dict[Place, int] = {}
        self.counted: dict[Place, int] = {}
        self.expected: dict[Place, int] | None = {}
        self.uncertain = False
        self.keeps = False
        self.asked_again = 0
        self.granted = False

    def took(self, pk: str, *amounts: Mapping[str, int]) -> None:
        """A confirmed write took these."""
        for part in amounts:
            for limit, amount in part.items():
                if limit == SLOTS:
                    continue  # whose they are, others keep (slots)
                self.held[pk, limit] = self.held.get((pk, limit), 0) + amount

    def counts(self, pk: str, amounts: Mapping[str, int]) -> None:
        """A confirmed write only counted these; a negative amount takes them out of the count."""
        for limit, amount in amounts.items():
            if limit == SLOTS:
                continue
            bucket = pk.rpartition("#")[0] + "#0", limit  # whichever shard counts it
            self.counted[bucket] = self.counted.get(bucket, 0) + amount
            if self.counted[bucket] < 0:
                raise Violation(f"{amount} of {limit} leave the count of {pk}, which had less for this caller")

    def gives(self, pk: str, amounts: Mapping[str, int]) -> None:
        """These are about to be given back. Raises ``Violation`` where no confirmed write took them."""
        for limit, amount in amounts.items():
            held = self.held.get((pk, limit), 0)
            if amount > held:
                raise Violation(f"{amount} of {limit} go back to {pk}, but confirmed writes took only {held}")
            self.held[pk, limit] = held - amount

    def settle(self) -> None:
        """Raises ``Violation`` where the caller holds something else than he believes."""
        if self.uncertain or self.expected is None:
            return
        expected = _by_bucket(self.expected)
        held = _by_bucket(
            {place: self.held.get(place, 0) + self.counted.get(place, 0) for place in {**self.held, **self.counted}}
        )
        if held != expected:
            raise Violation(f"the caller believes to hold {expected}, the table says {held}")


def _by_bucket(amounts: Mapping[Place, int]) -> dict[Place, int]:
    """The amounts of all shards of a bucket together, but for nothing."""
    sums: dict[Place, int] = {}
    for (pk, limit), amount in amounts.items():
        bucket = pk.rpartition("#")[0], limit
        sums[bucket] = sums.get(bucket, 0) + amount
    return {place: amount for place, amount in sums.items() if amount}
