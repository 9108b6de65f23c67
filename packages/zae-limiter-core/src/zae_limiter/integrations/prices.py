"""What calls of language models cost by your own list of prices, in exact micro-dollars. A file of YAML needs PyYAML.

A price is in dollars for a million tokens, which is micro-dollars for one. So prices are the weights of a limit that
counts micro-dollars: ``Prices.weights``. All arithmetic is in integers; a part of a micro-dollar counts as one, once a
call.
"""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ..exceptions import PriceMissing, ValidationError
from ..runtime.dataclass import dataclass
from ..runtime.extras import install_command
from ..values.limits import MAX_TOKENS, MILLI
from ..values.token_usage import TOKEN_KINDS, TokenUsage
from ..values.weights import LIKE, Weights

VERSION: Final = 1  # of the format
MICRO: Final = 1_000_000
FROM: Final = "from"
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
_NEVER_AS: Final = "cache_write"  # it costs more than input, so nothing else may stand for it


@dataclass(frozen=True, slots=True)
class Price:
    """What tokens cost from an instant on, in dollars for a million of a kind."""

    since: datetime
    per_million: Weights


class Prices:
    """A list of prices by model, each from its date on. ``revision`` is your name for the list."""

    def __init__(self, models: Mapping[str, Sequence[Price]], revision: str = "") -> None:
        self.revision = revision
        self._models = {model: sorted(each, key=lambda price: price.since) for model, each in models.items()}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Prices":
        """Return the prices of a file, YAML or (``.json``) JSON. Raises ``OSError`` and ``ValidationError``."""
        file = Path(path)
        text = file.read_text("utf-8")
        try:
            return cls.from_dict(_of_json(text) if file.suffix == ".json" else _of_yaml(text))
        except ValidationError as error:
            raise ValidationError(f"{file.name}: {error.field}", error.value, error.problem) from error

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Prices":
        """Return the prices of plain values, as a file has them. Raises ``ValidationError``."""
        _check_keys("prices", values, ("version", "revision", "models"))
        if values.get("version") != VERSION:
            raise ValidationError("version of prices", values.get("version"), f"must be {VERSION}")
        models = values.get("models")
        if not isinstance(models, Mapping) or not models:
            raise ValidationError("models of prices", models, "must map each model to its prices")
        return cls({model: _prices(model, each) for model, each in models.items()}, str(values.get("revision", "")))

    @property
    def models(self) -> list[str]:
        """The models that have prices, sorted."""
        return sorted(self._models)

    def micro_usd(self, model: str, usage: TokenUsage, *, at: datetime | None = None) -> int:
        """Return what a usage costs, in micro-dollars, by the price in force ``at`` an instant (now).

        ``cached`` costs as ``input``, and ``reasoning`` as ``output``, if they have no price of their own. Raises
        ``PriceMissing`` if any other kind that was used has none, or if the model has none then, ``ValidationError``
        for anything but a ``TokenUsage``, also for the ``None`` of an answer without usage.
        """
        _check_usage(usage)
        price = self._price(model, at).per_million
        for kind, amount in usage.by_kind():
            if amount and kind not in price and (kind == _NEVER_AS or LIKE.get(kind) not in price):
                raise PriceMissing(f"{self._title} of {model!r} has no {kind}, of which {amount} were used: add it")
        return min(-(-price.weigh(usage) // MILLI), MAX_TOKENS)

    def weights(self, model: str, *, at: datetime | None = None) -> Weights:
        """Return the weights of a limit of micro-dollars for a model, so that ``lease.settle(usage)`` settles money.

        A limit keeps them when a later price comes into force: set it again. Raises ``PriceMissing``.
        """
        return self._price(model, at).per_million

    def _price(self, model: str, at: datetime | None) -> Price:
        if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
            raise ValidationError("at", at, "must be a datetime with a zone: datetime.now(UTC)")
        instant = at or datetime.now(UTC)
        prices = self._models.get(model)
        if prices is None:
            close = difflib.get_close_matches(str(model), self._models, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(self.models)}"
            raise PriceMissing(f"{self._title} has no model {model!r}: {hint}")
        in_force = [price for price in prices if price.since <= instant]
        if not in_force:
            raise PriceMissing(f"{self._title} of {model!r} begins at {prices[0].since}, after {instant}: add a price")
        return in_force[-1]

    @property
    def _title(self) -> str:
        return f"the list of prices {self.revision}".rstrip()


def micro_usd(dollars: str | int | Decimal) -> int:
    """Return dollars as micro-dollars: ``micro_usd("2.50")`` is 2,500,000.

    Raises ``ValidationError`` for a float, which is not exact, and for parts of a micro-dollar.
    """
    problem = "must be dollars as text, int or Decimal, with at most six decimals"
    if isinstance(dollars, bool) or not isinstance(dollars, str | int | Decimal):
        raise ValidationError("dollars", dollars, problem)
    try:
        exact = Decimal(dollars)
    except InvalidOperation:
        raise ValidationError("dollars", dollars, problem) from None
    if not exact.is_finite() or abs(exact) * MICRO > MAX_TOKENS or exact.as_tuple().exponent < -6:  # type: ignore[operator]
        raise ValidationError("dollars", dollars, f"{problem}, and at most {MAX_TOKENS // MICRO}")
    return int(exact.scaleb(6))


def dollars(micro: int) -> Decimal:
    """Return micro-dollars as dollars, with six decimals."""
    return Decimal(micro).scaleb(-6)


def _check_usage(usage: object) -> None:
    if usage is None:
        raise ValidationError(
            "usage", usage, "has no price: the provider reported no usage, so keep the estimate of the lease"
        )
    if not isinstance(usage, TokenUsage):
        problem = "must be a TokenUsage: zae_limiter.integrations.usage.read_usage makes one of a provider's answer"
        raise ValidationError("usage", usage, problem)


def _prices(model: object, given: object) -> list[Price]:
    if not isinstance(model, str) or not model:
        raise ValidationError("model of prices", model, "must be a name: put it in quotes")
    if not isinstance(given, list | tuple) or not given:
        raise ValidationError(
            f"prices of {model!r}", given, "must be a list of prices, like [{input: 1.25, output: 10}]"
        )
    prices = [_price(f"price {place} of {model!r}", each) for place, each in enumerate(given, 1)]
    for price in prices:
        if [each.since for each in prices].count(price.since) > 1:
            raise ValidationError(f"prices of {model!r}", str(price.since), "is the begin of two prices: leave one out")
    return prices


def _price(field: str, given: object) -> Price:
    _check_keys(field, given, (FROM, *TOKEN_KINDS))
    assert isinstance(given, Mapping), "its keys were checked"
    kinds = {kind: _number(f"{kind} of {field}", given[kind]) for kind in given if kind != FROM}
    if not kinds:
        raise ValidationError(field, dict(given), f"names no kind of tokens: there are {', '.join(TOKEN_KINDS)}")
    return Price(_instant(f"{FROM} of {field}", given.get(FROM)), Weights.check(field, kinds))


def _check_keys(field: str, given: object, known: Iterable[str]) -> None:
    if not isinstance(given, Mapping):
        raise ValidationError(field, given, f"must be a map of {', '.join(known)}")
    for key in given:
        if key not in known:
            raise ValidationError(field, key, f"is not a known key: there are {', '.join(known)}")


def _number(field: str, value: object) -> object:
    """Return the number of a text; leave anything else to the weights."""
    try:
        return Decimal(value) if isinstance(value, str) else value
    except InvalidOperation:
        raise ValidationError(field, value, "must be dollars for a million tokens") from None


def _instant(field: str, given: object) -> datetime:
    """Return an instant; a day begins at midnight UTC, and a time without a zone is UTC."""
    if given is None:
        return _ALWAYS
    try:
        found = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        found = None
    if isinstance(found, datetime):
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    if isinstance(found, date):
        return datetime.combine(found, time(), UTC)
    raise ValidationError(field, given, "must be a date like 2026-01-31, or a time like 2026-01-31T14:00Z")


def _of_json(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, object_pairs_hook=_once)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValidationError("JSON", text[:40], f"cannot be read: {error}") from error


def _of_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ImportError(f"prices in YAML need PyYAML: {install_command('prices')}; JSON needs nothing") from error

    class Exact(yaml.SafeLoader):
        """Reads 1.25 as a Decimal, and refuses a key that is there twice."""

    Exact.add_constructor("tag:yaml.org,2002:float", lambda _, node: node.value)
    Exact.add_constructor("tag:yaml.org,2002:map", lambda loader, node: _once(loader.construct_pairs(node, deep=True)))
    try:
        return yaml.load(text, Exact)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ValidationError):
            raise
        raise ValidationError("YAML", text[:40], f"cannot be read: {error}") from error


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValidationError("key", key, "is there twice: leave one out")
        found[key] = value
    return found
