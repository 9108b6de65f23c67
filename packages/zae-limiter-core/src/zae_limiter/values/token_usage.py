"""The tokens of one call of a language model, by kind (``TokenUsage``). No token is of two kinds."""

from collections.abc import Iterator
from typing import Final, Literal, get_args

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, fields

TokenKind = Literal["input", "cached", "cache_write", "output", "reasoning"]
MOST_TOKENS: Final = 10**15  # of a kind, as of a limit
TOKEN_KINDS: Final[tuple[TokenKind, ...]] = get_args(TokenKind)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What one call used, in tokens by kind; each token is of one kind, so ``total`` is their sum.

    ``zae_limiter.integrations.usage`` reads it from the answers of providers, whatever these count twice. Raises
    ``ValidationError`` for an amount that is negative or not a whole number.
    """

    input: int = 0
    """Input that was neither read from a cache of prompts nor written to one."""
    cached: int = 0
    """Input that was read from a cache of prompts."""
    cache_write: int = 0
    """Input that was written to a cache of prompts."""
    output: int = 0
    """Output that the caller gets."""
    reasoning: int = 0
    """Output that the model has thought, if the provider counts it apart; else it is in ``output``."""

    def __post_init__(self) -> None:
        for kind, amount in self.by_kind():
            if type(amount) is not int or not 0 <= amount <= MOST_TOKENS:
                raise ValidationError(
                    f"{kind} of TokenUsage", amount, f"must be a whole number from 0 to {MOST_TOKENS}"
                )

    @property
    def total(self) -> int:
        """The tokens of all kinds."""
        return sum(amount for _, amount in self.by_kind())

    def by_kind(self) -> Iterator[tuple[TokenKind, int]]:
        """Yield each kind and its tokens."""
        return ((kind, getattr(self, kind)) for kind in TOKEN_KINDS)

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        """Return the usage of both calls."""
        if not isinstance(other, TokenUsage):
            return NotImplemented
        return TokenUsage(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(TokenUsage)))
