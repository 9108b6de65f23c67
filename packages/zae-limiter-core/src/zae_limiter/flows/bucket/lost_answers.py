"""What a run of group commit does about a write whose answer was lost: it sends it again, if that is safe.

The same bytes go again. Their token (``process.write_tokens``) lets one of the copies be applied, and the item that a
failed condition returns proves that an earlier one was. If none was, because the bucket has changed, the run decides
anew; its next write has the first token as a bound, so that it and the late copy of the former never both apply.
Requests of the former that the new state does not serve are refused: if it is applied behind that, their tokens are
lost, as with any lost answer. A write without a token is not repeated: taking twice is worse than a failed call.
"""

from typing import Final

from ...operations.errors import BudgetSpent, ConditionFailed, OutcomeUnknown, StoreError, Throttled
from ...operations.values import Item, Put, Update
from ...runtime.named_tuple import NamedTuple
from ...schema.items import BucketState
from ..process.namespace_state import NamespaceState
from ..process.write_tokens import Token, token_of
from .write_plans import Decision

MOST_REPEATS: Final = 3
REPEATED_FOR_MS: Final = 2_500  # behind the first copy: half of the usual budget, so that an answer still finds callers


class LostAnswer(NamedTuple):
    """A write that may have been applied: its token, the error in place of its answer, and when it was decided."""

    token: Token
    error: StoreError
    since_ms: int


class LostAnswers:
    """The writes of one run whose answers were lost.

    ``first``: the first one, until a write in its place is applied. ``again``: the one that goes again as it is.
    """

    first: LostAnswer | None = None
    again: Decision | None = None
    left = MOST_REPEATS

    def __init__(self, namespace_state: NamespaceState) -> None:
        self.namespace_state = namespace_state

    def signed(self, write: Put | Update, state: BucketState | None, now_ms: int) -> Put | Update:
        """Return a write with a token: it takes the place of one in doubt."""
        tokens = self.namespace_state.write_tokens
        if tokens is None:
            return write
        if isinstance(write, Put):
            return tokens.sign_new(write, now_ms)
        return tokens.sign(write, {} if state is None else state.item, now_ms, self.first and self.first.token)

    def repeats(self, error: StoreError, decision: Decision | None, now_ms: int) -> bool:
        """Return whether to send a request again as it is: a read or a write with a token whose answer was lost, or a
        write that was throttled behind that.
        """
        if isinstance(error, Throttled):
            return self.again is not None
        if not isinstance(error, OutcomeUnknown) or isinstance(error, BudgetSpent) or decision is None:
            return False
        token = token_of(decision.operation)
        if token is None and decision.plan is not None:
            return False
        if token is not None:
            self.first = self.first or LostAnswer(token, error, now_ms)
        since_ms = now_ms if self.first is None else self.first.since_ms
        if not 0 <= self.namespace_state.now() - since_ms < REPEATED_FOR_MS:
            return False
        self.again = None if token is None else decision
        self.left -= 1
        return self.left >= 0

    def settles(self, error: StoreError, decision: Decision | None) -> Item | None:
        """Return the item that proves that a write which was sent again had been applied before."""
        if self.again is None or decision is not self.again or not isinstance(error, ConditionFailed):
            return None
        token = token_of(decision.operation)
        return error.item if token is not None and (error.item or {}).get(token.cell) == token.number else None

    def is_past(self, item: Item | None) -> bool:
        """Return whether it cannot be known any more what became of a write in doubt: it was applied after all behind a
        copy that was not, another process has taken its cell, the shard has merged with another one, or the bucket is
        gone.
        """
        if self.first is None:
            return False
        if item is None:
            return True
        held = item.get(self.first.token.cell, 0)
        return not isinstance(held, int) or held >= self.first.token.number
