"""How much a token of each kind counts for a limit (``Weights``), in exact millionths."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from ..exceptions import ValidationError
from .token_usage import MOST_TOKENS, TOKEN_KINDS, TokenKind, TokenUsage

MAX_WEIGHT: Final = 1_000_000
DECIMALS: Final = 6
_ONE: Final = 10**DECIMALS
_PER_MILLI: Final = _ONE // 1000
LIKE: Final[Mapping[TokenKind, TokenKind]] = MappingProxyType(
    {"cached": "input", "cache_write": "input", "reasoning": "output"}
)
"""The kind as which a kind without a weight counts."""


class Weights(Mapping[str, float]):
    """How much a token of each kind counts: an immutable mapping that can be hashed, in the order of the kinds.

    A kind that is not named counts as the one it is a part of: ``cached`` and ``cache_write`` as ``input``,
    ``reasoning`` as ``output``; as nothing if that is not named either. ``str`` is ``input=1,cached=0.1,output=4``,
    which ``parse`` reads.
    """

    __slots__ = ("_millionths",)

    def __init__(self, millionths: Mapping[TokenKind, int]) -> None:
        self._millionths = tuple((kind, millionths[kind]) for kind in TOKEN_KINDS if kind in millionths)

    @classmethod
    def check(cls, field: str, values: Mapping[str, object]) -> "Weights":
        """Return weights of ``int``, ``float`` or ``Decimal``. Raises ``ValidationError``, which names ``field``."""
        if isinstance(values, cls):
            return values
        if not isinstance(values, Mapping):
            raise ValidationError(field, values, "must map kinds of tokens to weights, like {'input': 1, 'output': 4}")
        checked = {_check_kind(field, kind): _check_weight(f"{field}[{kind!r}]", values[kind]) for kind in values}
        return cls(checked) if checked else NO_WEIGHTS

    @classmethod
    def parse(cls, field: str, text: str) -> "Weights":
        """Return the weights of a text like ``input=1,cached=0.1,output=4``. Raises ``ValidationError``."""
        from decimal import Decimal  # few limits have weights

        found: dict[str, object] = {}
        for part in text.split(",") if text else ():
            kind, equals, number = part.partition("=")
            if not equals or not number.replace(".", "", 1).isdecimal() or not number.isascii() or len(number) > 20:
                raise ValidationError(field, text, "must be like input=1,cached=0.1,output=4")
            if kind in found:
                raise ValidationError(field, text, f"has {kind} twice: leave one out")
            found[kind] = Decimal(number)
        return cls.check(field, found)

    def weigh(self, usage: TokenUsage) -> int:
        """Return what a usage counts, in millitokens; a part of a millitoken counts as one."""
        own = dict(self._millionths)
        counted = sum(amount * own.get(kind, own.get(LIKE.get(kind, kind), 0)) for kind, amount in usage.by_kind())
        return min(-(-counted // _PER_MILLI), MOST_TOKENS * 1000)

    def __getitem__(self, kind: str) -> float:
        millionths = dict(self._millionths)[cast("TokenKind", kind)]
        return millionths / _ONE if millionths % _ONE else millionths // _ONE  # one division: the float's text is exact

    def __iter__(self) -> Iterator[str]:
        return (kind for kind, _ in self._millionths)

    def __len__(self) -> int:
        return len(self._millionths)

    def __hash__(self) -> int:
        return hash(self._millionths)

    def __eq__(self, other: Any) -> bool:
        return self._millionths == other._millionths if isinstance(other, Weights) else Mapping.__eq__(self, other)

    def __str__(self) -> str:
        return ",".join(f"{kind}={_decimal(millionths)}" for kind, millionths in self._millionths)

    def __repr__(self) -> str:
        return repr(dict(self))


NO_WEIGHTS: Final = Weights({})


def _check_kind(field: str, kind: object) -> TokenKind:
    for known in TOKEN_KINDS:
        if kind == known:
            return known
    raise ValidationError(field, kind, f"is not a kind of tokens (known: {', '.join(TOKEN_KINDS)})")


def _check_weight(field: str, weight: object) -> int:
    from decimal import Decimal

    problem = f"must be a number from 0 to {MAX_WEIGHT}, with at most {DECIMALS} decimals"
    if isinstance(weight, bool) or not isinstance(weight, int | float | Decimal):
        raise ValidationError(field, weight, problem)
    exact = Decimal(repr(weight)) if isinstance(weight, float) else Decimal(weight)
    if not exact.is_finite() or not 0 <= exact <= MAX_WEIGHT or exact * _ONE != int(exact * _ONE):
        raise ValidationError(field, str(weight) if isinstance(weight, Decimal) else weight, problem)
    return int(exact * _ONE)


def _decimal(millionths: int) -> str:
    whole, rest = divmod(millionths, _ONE)
    return f"{whole}.{rest:0{DECIMALS}}".rstrip("0") if rest else str(whole)
