"""The callers of this process that wait for tokens of one bucket, in their order.

Lives here: who is before whom, as plain data. Never: the pause of a caller (acquire.waiting).
"""

from collections.abc import Mapping
from itertools import count

_numbers = count(1)


class WaitingLine:
    """First come, first served. Amounts are in millitokens by limit. Threads may share it.

    ``phase_ms`` shifts the moments at which a crowd acquires, so that those of two processes do not coincide.
    """

    __slots__ = ("_awake", "_turns", "phase_ms")

    def __init__(self) -> None:
        self._turns: dict[int, Mapping[str, int]] = {}
        self._awake: set[int] = set()
        self.phase_ms = 0

    def __len__(self) -> int:
        return len(self._turns)

    def join(self, amounts: Mapping[str, int]) -> int:
        """Wait for these amounts, behind all others. Returns the number of the turn."""
        number = next(_numbers)
        self._turns[number] = amounts
        return number

    def leave(self, number: int) -> None:
        """End the turn."""
        self._awake.discard(number)
        self._turns.pop(number, None)

    def wake(self, number: int) -> None:
        """The turn has come: its caller acquires."""
        self._awake.add(number)

    def sleep(self, number: int) -> None:
        """The tokens were not there: the caller waits again, in its place."""
        self._awake.discard(number)

    def is_next(self, number: int) -> bool:
        """Whether all before this turn have had theirs."""
        return next((each for each in list(self._turns) if each not in self._awake), number) == number

    def up_to(self, number: int) -> dict[str, int]:
        """The amounts of this turn and of all before it."""
        sums: dict[str, int] = {}
        for each, amounts in list(self._turns.items()):
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount
            if each == number:
                break
        return sums
