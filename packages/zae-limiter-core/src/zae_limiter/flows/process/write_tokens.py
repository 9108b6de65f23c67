"""Tokens of writes: a write that got no answer is sent again, and is applied once.

The problem: after a 500, a time-out or a lost connection it is unknown whether a write was applied. Repeated, it might
take twice; given up, the call fails, and what it took is lost. The first copy may even be applied behind the second.

The choice: a write sets one attribute of the item, a *cell*, to a token that no other write has, if the cell has a
smaller one, or none. Tokens of one process grow with time, so a cell only ever grows. Therefore, of all copies of a
write at most one is applied, however late the others arrive, and an item that shows the token proves it: a failed
condition returns the item. A cell holds one write, so each process writes to one of its own, as long as an item has
one: a cell is free if it is empty, or if its token is older than ``STALE_MS``. Where other processes have all of them,
a write has no token, and a lost answer is a failed call.

Tried and left: the condition that a cell has the value that was seen. Then a process that has not seen the item for a
while fails wherever another one has taken its cell, which doubled the units of large fleets on quiet buckets. A set of
recent tokens needs a second write that removes them.

A token is a number, because updates of numbers alone are rendered fastest: milliseconds, a number of the process that
counts its writes, and a random number of the process, in 93 bits, or 28 digits; DynamoDB keeps 38. A clock that goes
back makes a cell unusable to its process for as long. docs/design/admission.md ("Lost answers").
"""

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from ...operations.values import NOTHING, Operation, Put, Update
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import WRITE_TOKENS

STALE_MS: Final = 60_000  # longer than any request is under way
PROCESS_BITS: Final = 32
NUMBER_BITS: Final = 20  # of the writes of a millisecond
_PROCESS: Final = (1 << PROCESS_BITS) - 1
_NUMBER: Final = (1 << NUMBER_BITS) - 1
_TIME: Final = PROCESS_BITS + NUMBER_BITS


class Token(NamedTuple):
    """The token of a write, and its cell."""

    cell: str
    number: int


class WriteTokens:
    """Makes the tokens of one process. ``process``: a random number below ``2 ** PROCESS_BITS``."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._numbers = count()  # threads may share it
        first = process % len(WRITE_TOKENS)
        self._cells = WRITE_TOKENS[first:] + WRITE_TOKENS[:first]

    def sign(self, write: Update, item: Mapping[str, Any], now_ms: int, lost: Token | None = None) -> Update:
        """Return the write with a token, if ``item`` has a cell for it; else as it is. As ``mark`` does."""
        values = dict(write.set)
        below = self.mark(values, item, now_ms, lost)
        return write._replace(set=values, when=write.when._replace(below=below)) if below else write

    def mark(
        self, values: dict[str, Any], item: Mapping[str, Any], now_ms: int, lost: Token | None = None
    ) -> Mapping[str, int]:
        """Add a token to the ``values`` that a write sets, and return the condition that it needs; nothing of both if
        ``item``, as it was seen last, has no cell for it.

        ``lost``: the token of an earlier write in whose place this one is. At most one of the two is applied: a cell
        that has the other's token is too large for this one, and the other way round.
        """
        if lost is not None:
            now_ms = max(now_ms, (lost.number >> _TIME) + 1)  # also if the clock has gone back
        number = now_ms << _TIME | (next(self._numbers) & _NUMBER) << PROCESS_BITS | self._process
        cell, bound = (self._cell(item, number, now_ms), number) if lost is None else lost
        if cell is None:
            return NOTHING
        values[cell] = number
        return {cell: bound}

    def sign_new(self, put: Put, now_ms: int) -> Put:
        """Return the put of a new item with a token."""
        return Put({**put.item, self._cells[0]: self._next(now_ms)}, put.when)

    def request_token(self, now_ms: int) -> str:
        """Return the request token of a transaction."""
        return str(self._next(now_ms))

    def _next(self, now_ms: int) -> int:
        return now_ms << _TIME | (next(self._numbers) & _NUMBER) << PROCESS_BITS | self._process

    def _cell(self, item: Mapping[str, Any], number: int, now_ms: int) -> str | None:
        """Return the cell of this process in an item, or one that is free; ``None`` if there is none."""
        free, stale = None, (now_ms - STALE_MS) << _TIME
        for cell in self._cells:  # nearly always the first
            held = item.get(cell, 0)
            if type(held) is not int or held >= number:  # damaged, or of a fast clock
                continue
            if held & _PROCESS == self._process:
                return cell
            if held < stale and free is None:
                free = cell
        return free


def token_of(operation: Operation[Any]) -> Token | None:
    """Return the token of a write, ``None`` if it has none."""
    values: Mapping[str, Any] = NOTHING
    if isinstance(operation, Put | Update):
        values = operation.item if isinstance(operation, Put) else operation.set
    return next((Token(cell, values[cell]) for cell in WRITE_TOKENS if cell in values), None)
