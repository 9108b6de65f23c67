"""What a crowd gets that waits for a bucket of many shards, and at what cost.

Why there are bounds. A shard of a crowd's bucket is *ripe* at ``u`` tokens: an amount, or 4/5 of the ``c`` that it can
hold, whichever is less. In the time ``L`` that a ripe shard waits at most for a caller, ``r * L`` more are minted
there, and what exceeds ``c`` is lost. So of what is minted, the crowd gets ``c / (u + r * L)``, or all, but for what
the shards hold at the end. A write that takes for a caller takes ``u``, or all that is missing: it needs ``a / u + 1``
of them for the amount ``a``; each other process may make it take as many for nothing.

Never: one write (oracle), one caller (waits).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zae_limiter.flows.acquire.taking import ROUNDS
from zae_limiter.flows.acquire.waiting import MOMENT_MS

from .application import Application
from .kernel import EPOCH_MS, Violation
from .plan import HEALTHY, Plan
from .waits import Waits

RIPE = 4, 5


@dataclass(frozen=True)
class Crowd:
    """The parent's writes and the callers of a history of one crowd; tokens are counted in millitokens."""

    plan: Plan
    writes: Sequence[Application]
    waits: Sequence[Waits]
    epoch_ms: int = EPOCH_MS

    def check(self) -> None:
        """Raises ``Violation`` where the crowd got less, or wrote more, than the bounds allow."""
        asleep = [each.asleep_us for each in self.waits if each.asleep_us is not None]
        if asleep:
            self._check_share(self.epoch_ms + min(asleep) // 1000)
            self._check_cost()

    @property
    def _ceiling(self) -> int:
        return 1000 * self.plan.of_parent[0].burst // self.plan.shards

    def _ripe(self, amount: int) -> int:
        most, of = RIPE
        return min(amount, self._ceiling * most // of)

    @property
    def _late_ms(self) -> int:
        """The longest that a ripe shard waits: a moment, then the requests of a caller that finds others taken."""
        return MOMENT_MS + ROUNDS * self.plan.network.longest_ms

    def _check_share(self, begun_ms: int) -> None:
        """At the end of every wait for a token: what was taken since the crowd began."""
        [limit] = self.plan.of_parent
        rate = limit.refill_amount / limit.refill_period  # tokens a second are millitokens a millisecond
        at_most = self._ripe(1000 * max(self.plan.amounts)) + rate / self.plan.shards * self._late_ms
        share, held = min(1.0, self._ceiling / at_most), self.plan.shards * min(self._ceiling, at_most)
        taken = 0
        for write in self.writes:
            if write.applied_ms < begun_ms:
                continue
            due = share * rate * (write.applied_ms - begun_ms) - held
            if taken < due:
                raise Violation(f"a crowd got {taken} millitokens, when {due:.0f} of those minted were due")
            taken += sum(change.net for change in write.changes.values())

    def _check_cost(self) -> None:
        """For all admissions together, unless requests are so slow that callers settle for smaller parts."""
        amounts = [sum(each.request.amounts.values()) for each in self.waits if each.request and each.admitted]
        most = self.plan.processes * sum(amount / self._ripe(amount) + 1 for amount in amounts)
        took = sum(any(change.net > 0 for change in write.changes.values()) for write in self.writes)
        if self.plan.network == HEALTHY and took > most:
            raise Violation(f"{took} writes took for {len(amounts)} callers, {most:.0f} are enough")
