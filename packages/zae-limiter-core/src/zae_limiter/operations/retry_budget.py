"""The budget of retries of one store, for reads or for writes: how often a process may send again what was not served.

A table at its limit refuses what is above it, and each repeat is one more request above it. With a fixed number of
repeats for each call, a table at half of the demand got 4.6 requests for each acquire. So repeats are paid from a
budget, as in the "standard" mode of AWS's SDKs: it begins with ``BURST``, each request that the store serves earns
``EARNED``, and each repeat costs 1. A store that serves most of the requests has all repeats; one that serves nothing
soon gets each call once. It counts nothing itself while nothing is throttled, so a warm acquire costs no more.

https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

from typing import Final

BURST: Final = 30
OVERDRAFT: Final = 30
EARNED: Final = 0.5


class RetryBudget:
    """The repeats that are left. Threads may share it: a race miscounts one repeat."""

    __slots__ = ("_answers", "_left")

    def __init__(self) -> None:
        self._left: float = BURST
        self._answers = 0  # at the last throttled request, with it

    def throttled(self, answers: int) -> None:
        """Note a throttled request, the last one of so many ``answers``; those before it have earned repeats."""
        self.unanswered(answers - 1)
        self._answers = answers

    def unanswered(self, answers: int) -> None:
        """Note a request without an answer, behind so many ``answers``."""
        self._earn(EARNED * (answers - self._answers))
        self._answers = answers

    def take(self, *, for_others: bool = False) -> bool:
        """Return whether a request may be sent again, and pay for it.

        ``for_others``: callers that have sent nothing wait for it. They will share one write, so it may overdraw.
        """
        if self._left < (1 - OVERDRAFT if for_others else 1):
            return False
        self._left -= 1
        return True

    def shared(self, callers: int) -> None:
        """Note that so many callers shared one write: each beside the first has saved a request, and earned repeats."""
        self._earn((1 + EARNED) * max(0, callers - 1))

    def _earn(self, repeats: float) -> None:
        self._left = min(BURST, self._left + repeats)
