"""The callers of this process that wait for tokens of one bucket, in their order.

Lives here: who is before whom, as plain data. Never: the pause of a caller (acquire.waiting).
"""

from collections.abc import Mapping

from .bucket_queue import BucketRequest


class WaitingLine:
    """First come, first served: a turn has the number of its arrival. Amounts are in millitokens by limit.

    Threads may share it.

    ``phase_ms`` shifts the moments at which a crowd acquires, so that those of two processes do not coincide.
    """

    __slots__ = ("_awake", "_turns", "phase_ms")

    def __init__(self) -> None:
        self._turns: dict[int, Mapping[str, int]] = {}
        self._awake: dict[int, BucketRequest | None] = {}  # with the last request of each, if it has made one
        self.phase_ms = 0

    def __len__(self) -> int:
        return len(self._turns)

    def join(self, number: int, amounts: Mapping[str, int]) -> None:
        """Wait for these amounts."""
        self._turns[number] = amounts

    def wake(self, number: int) -> None:
        """The turn has come: its caller acquires."""
        self._awake[number] = None

    def asks(self, number: int, request: BucketRequest) -> None:
        """The caller whose turn it is enters this request."""
        if number in self._awake:
            self._awake[number] = request

    def sleep(self, number: int) -> None:
        """The tokens were not there: the caller waits again, in its place."""
        self._awake.pop(number, None)

    def leave(self, number: int) -> None:
        """End the turn."""
        self._awake.pop(number, None)
        self._turns.pop(number, None)

    def is_next(self, number: int) -> bool:
        """Whether all before this turn are served, or wait for the same write."""
        return all(each >= number or self._lets_pass(each) for each in list(self._turns))

    def up_to(self, number: int) -> dict[str, int]:
        """The amounts of this turn and of all before it that are not served; the last seen state has the others."""
        sums: dict[str, int] = {}
        for each, amounts in list(self._turns.items()):
            request = self._awake.get(each)
            if each <= number and (request is None or not request.admitted):
                for name, amount in amounts.items():
                    sums[name] = sums.get(name, 0) + amount
        return sums

    def _lets_pass(self, number: int) -> bool:
        """Whether the next turn need not wait: a write that is under way may still refuse this one."""
        request = self._awake.get(number)
        return request is not None and (request.admitted or request in request.queue.waiting)
