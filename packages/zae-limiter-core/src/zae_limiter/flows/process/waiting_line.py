"""The callers of this process that wait for tokens of one bucket, in their order.

Lives here: who is before whom, as plain data. Never: the pause of a caller (acquire.waiting).
"""

from collections.abc import Mapping

from .bucket_queue import BucketRequest


class Turn:
    """The place of one caller in all lines that it waits in: the number of its arrival.

    While it is ``awake``, it acquires: ``requests`` has what it has entered, by line. Else it sleeps until ``due_ms``.
    """

    __slots__ = ("awake", "due_ms", "number", "requests")

    def __init__(self, number: int) -> None:
        self.number = number
        self.awake = False
        self.requests: dict[WaitingLine, BucketRequest] = {}
        self.due_ms = 0

    def wake(self) -> None:
        """The turn has come: its caller acquires."""
        self.requests, self.awake = {}, True

    def sleep(self) -> None:
        """The tokens were not there: the caller waits again, in its place."""
        self.awake = False

    def lets_pass(self) -> bool:
        """Whether the next turn need not wait: a write that is under way may still refuse this one."""
        requests = list(self.requests.values()) if self.awake else []
        return bool(requests) and all(each.admitted or each in each.queue.waiting for each in requests)


class WaitingLine:
    """First come, first served: the turns of those that wait, with their amounts in millitokens by limit.

    Threads may share it.

    ``phase_ms`` shifts the moments at which a crowd acquires, so that those of two processes do not coincide.
    """

    __slots__ = ("_turns", "phase_ms")

    def __init__(self) -> None:
        self._turns: dict[Turn, Mapping[str, int]] = {}
        self.phase_ms = 0

    def __len__(self) -> int:
        return len(self._turns)

    def join(self, turn: Turn, amounts: Mapping[str, int]) -> None:
        """Wait for these amounts."""
        self._turns[turn] = amounts

    def leave(self, turn: Turn) -> None:
        """End the wait."""
        self._turns.pop(turn, None)

    def is_next(self, turn: Turn) -> bool:
        """Whether all before this turn are served, or wait for the same write."""
        return all(each.number >= turn.number or each.lets_pass() for each in list(self._turns))

    def due_ms(self, turn: Turn) -> int:
        """The instant at which the last of those before this turn looks again; 0 if none of them sleeps."""
        before = (each for each in list(self._turns) if each.number < turn.number and not each.awake)
        return max((each.due_ms for each in before), default=0)

    def up_to(self, turn: Turn) -> dict[str, int]:
        """The amounts of this turn and of all before it that are not served; the last seen state has the others."""
        sums: dict[str, int] = {}
        for each, amounts in list(self._turns.items()):
            request = each.requests.get(self) if each.awake else None
            if each.number <= turn.number and (request is None or not request.admitted):
                for name, amount in amounts.items():
                    sums[name] = sums.get(name, 0) + amount
        return sums
