"""Parse limits, amounts and metadata in the notation of the command line, and add the options that take them."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import CommandError
from ..options import Function
from ..rates import PERIODS
from .showing import LevelMode

if TYPE_CHECKING:
    from decimal import Decimal

    from zae_limiter import Draw, Limit
    from zae_limiter.values.money import Micro

LIMIT_FORM: Final = "LIMIT"
AMOUNT_FORM: Final = "name:amount"
METADATA_FORM: Final = "key=value"
DRAW_FORM: Final = "[ENTITY_ID] [on NAME] [name:amount …]"

_AMOUNT: Final = re.compile(r"([^:]+):([0-9]{1,20})")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_PREFETCH: Final = r"(?::prefetch=([^:]{1,200}))?"
_WEIGHTS: Final = r"(?::weights=([^:]{1,200}))?"
_LIMIT: Final = re.compile(
    rf"{_AMOUNT.pattern}(?:/({'|'.join(PERIODS)}))?(?::([0-9]{{1,20}}))?(:shadow)?{_PREFETCH}{_WEIGHTS}"
)


def parse_limit(text: str) -> "Limit":
    """Return the limit of a text of ``Limit.parse``, or in the notation with colons, ``rpm:100`` or
    ``tpm:10000/min:15000:shadow:prefetch=1``, for a minute if it has no period, with weights behind ``:weights=``; or
    in JSON. Raises ``CommandError``.
    """
    from zae_limiter import Limit, ValidationError
    from zae_limiter.values.weights import Weights

    if text.startswith("{"):
        return _parse_json(text)
    found = _LIMIT.fullmatch(text)
    if found is None:
        return _parse_text(text)
    name, amount, period, burst, mark, prefetch, weights = found.groups()
    if prefetch and not _SECONDS.fullmatch(prefetch):
        raise CommandError(
            f"--limit {text!r}: prefetch of limit {name!r} {prefetch!r}: must be seconds, such as 1 or 0.5"
        )
    try:
        return Limit.custom(
            name,
            int(amount),
            burst=None if burst is None else int(burst),
            refill_period=PERIODS[period or "min"],
            shadow=mark is not None,
            prefetch=float(prefetch or 0),
            weights=Weights.parse(f"weights of limit {name!r}", weights or ""),
        )
    except ValidationError as error:
        raise CommandError(f"--limit {text!r}: {error}") from error


def parse_new_values(text: str) -> "Callable[[Mapping[str, Limit]], Limit]":
    """Return what makes a limit of those that hold, by name: ``rpd:20`` is 20 of whatever kind and period ``rpd`` has,
    ``usd:$20`` so much money, at all times: it has no schedule.

    Any other text of ``parse_limit``, and a new name, is the limit that it says. Raises ``CommandError``.
    """
    from zae_limiter import Limit

    money = _new_amount(text)
    limit = parse_limit(text) if money is None else None
    name = text.partition(":")[0].strip()

    def made(known: "Mapping[str, Limit]") -> Limit:
        before = known.get(name)
        if limit is not None and (before is None or not _AMOUNT.fullmatch(text)):
            return limit
        if before is None or (money is not None and before.unit != money.unit):
            what = f"there is no limit {name}" if before is None else f"{name} is not of this currency"
            raise CommandError(f"--limit {text!r}: {what}: write the whole limit, like '{text}/month UTC'")
        if limit is not None and limit.capacity and before.unit:
            from zae_limiter.values.money import MICRO, write_money

            way_out = f"{name}:{write_money(limit.capacity * MICRO, before.unit)}"
            raise CommandError(f"--limit {text!r}: {name} is money: write '{way_out}', in single quotes")
        amount = limit.capacity if limit is not None else int(money or 0)
        return replace(before, capacity=amount, burst=amount, refill_amount=amount or 1, schedule=())

    return made


def _new_amount(text: str) -> "Micro | None":
    """Return the amount of a text such as ``usd:$20``; ``None`` for any other."""
    from zae_limiter.values.money import read_money

    _, colon, amount = text.partition(":")
    try:
        return read_money(amount.strip()) if colon else None
    except ValueError as error:
        raise CommandError(f"--limit {text!r}: {error}") from error


def _parse_json(text: str) -> "Limit":
    """Return a limit of any kind, from the JSON of ``Limit.to_dict``. Raises ``CommandError``."""
    from zae_limiter import Limit, ValidationError

    try:
        values = json.loads(text)
        if isinstance(values, dict) and "window" in values:
            values.setdefault("kind", "calendar")
        return Limit.from_dict(values)
    except ValidationError as error:
        raise CommandError(f"--limit {text!r}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--limit {text!r}: is not JSON: {error}") from error


def _parse_text(text: str) -> "Limit":
    from zae_limiter import Limit, ValidationError

    try:
        return Limit.parse(text)
    except ValidationError as error:
        problem = error.problem if error.value == text else str(error)
        raise CommandError(f"--limit {text!r}: {problem}") from error


def parse_amounts(texts: Iterable[str], option: str = "--tokens") -> "dict[str, int | Decimal]":
    """Return whole tokens by limit, money as ``Decimal``. Raises ``CommandError``, which names the option."""
    amounts: dict[str, int | Decimal] = {}
    for text in texts:
        name, _, given = text.partition(":")
        found = _AMOUNT.fullmatch(text)
        amount = int(found[2]) if found else _parse_money(name.strip(), given.strip(), f"{option} {text!r}")
        if amount is None:
            raise CommandError(f"{option} {text!r}: must be {AMOUNT_FORM}, like rpm:100, or money, like 'usd:$0.25'")
        if name in amounts:
            raise CommandError(f"{option} {text!r}: {name} is given twice: pass one amount for each limit")
        if not amount:
            raise CommandError(f"{option} {text!r}: must be at least 1")
        amounts[name] = amount
    return amounts


def _parse_money(name: str, text: str, said: str) -> "Decimal | None":
    """Return an amount of money, which a sign, a currency, or decimals of a limit named as one say."""
    from decimal import Decimal

    from zae_limiter.values.money import CURRENCIES, MICRO, read_money

    try:
        found = read_money(text, name if name in CURRENCIES and "." in text else "")
    except ValueError as error:
        raise CommandError(f"{said}: {error}") from error
    return None if found is None else Decimal(int(found)) / MICRO


def refuse_bare_money(amounts: "Mapping[str, object]", limits: "Mapping[str, Limit]", option: str) -> None:
    """Refuse a bare number for a limit of money, which is millionths to the library. Raises ``CommandError``."""
    for name, given in amounts.items():
        if isinstance(given, int) and name in limits and (unit := limits[name].unit):
            from zae_limiter.values.money import MICRO, write_money

            meant = (
                f"'{name}:{write_money(given * MICRO, unit)}' in single quotes, for a shell expands $ in double ones"
            )
            raise CommandError(f"{option} '{name}:{given}': {name} is money: write {meant}")


def parse_draw(text: str) -> "Draw":
    """Return a draw of ``DRAW_FORM``; words are apart by spaces, because ids have colons. Raises ``CommandError``."""
    from zae_limiter import Draw, ValidationError

    words = text.split()
    entity_id = words.pop(0) if words and words[0] != "on" else None
    resource = words[1] if words[:1] == ["on"] and len(words) > 1 else None
    amounts = words if resource is None else words[2:]
    if (entity_id is None and resource is None) or not all(":" in each for each in amounts):
        examples = "'team-blue', 'on embeddings' or 'team-blue on embeddings tpm:900'"
        raise CommandError(f"--draw {text!r}: must be {DRAW_FORM}, like {examples}")
    try:
        return Draw(entity_id, resource, parse_amounts(amounts, f"--draw {text!r}:") or None)
    except ValidationError as error:
        raise CommandError(f"--draw {text!r}: {error}") from error


def parse_metadata(texts: Iterable[str]) -> dict[str, str]:
    """Return values by key; a value may be empty, or contain ``=``. Raises ``CommandError``."""
    metadata: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise CommandError(f"--metadata {text!r}: must be {METADATA_FORM}, like team=search")
        if key in metadata:
            raise CommandError(f"--metadata {text!r}: {key} is given twice: pass one value for each key")
        metadata[key] = value
    return metadata


def limits_option(*, required: bool, parse: Callable[[str], object] = parse_limit) -> Callable[[Function], Function]:
    """Add ``--limit``; the command gets ``limits``, a list of what ``parse`` makes of each."""
    return click.option(
        "--limit",
        "-l",
        "limits",
        multiple=True,
        required=required,
        metavar=LIMIT_FORM,
        callback=lambda *given: [parse(text) for text in given[-1]],
        help="A limit: rpm:100/min, 'tpm: 10k/min burst 20k', '… prefetch 1s' lets a process reserve a second's,"
        " '… shadow' counts, but refuses no call; 'usd: $250/month', 'parallel: 5 concurrent'. Repeatable.",
    )


def level_options(function: Function) -> Function:
    """Add ``--limit``, ``--unlimited`` and ``--extends``; the command gets ``limits`` and ``mode``, a `LevelMode`."""

    @wraps(function)
    def command(*, limits: "list[Limit]", unlimited: bool, extends: bool, **kwargs: Any) -> Any:
        if unlimited and (limits or extends):
            raise CommandError("--unlimited stands in place of --limit and --extends: leave these out")
        if not (limits or unlimited):
            raise CommandError("pass --limit, or --unlimited for a level that has none")
        return function(limits=limits, mode=LevelMode(unlimited, extends), **kwargs)

    adds = click.option("--extends", is_flag=True, help="Add to the limits of the next level, in place of these.")
    none = click.option("--unlimited", is_flag=True, help="No limits, whatever the next levels have.")
    return limits_option(required=False)(none(adds(command)))  # type: ignore[return-value]  # click hands it the rest


tokens_option = click.option(
    "--tokens",
    "-t",
    multiple=True,
    required=True,
    metavar=AMOUNT_FORM,
    callback=lambda *given: parse_amounts(given[-1]),
    help="Number of tokens of a limit, or money: 'usd:$5'. Repeatable.",
)


consume_option = click.option(
    "--consume",
    "-c",
    multiple=True,
    metavar=AMOUNT_FORM,
    callback=lambda *given: parse_amounts(given[-1], "--consume") or None,
    help="Tokens that the acquire asks for. Repeatable.  [default: 1 of each limit, or what was refused]",
)


draw_option = click.option(
    "--draw",
    "draws",
    multiple=True,
    metavar="DRAW",
    callback=lambda *given: [parse_draw(text) for text in given[-1]],
    help="A further bucket that the call takes from: 'team-blue', 'on embeddings', or 'team-blue on embeddings"
    " tpm:900' with amounts of its own. Repeatable.",
)


metadata_option = click.option(
    "--metadata",
    "-m",
    multiple=True,
    metavar=METADATA_FORM,
    callback=lambda *given: parse_metadata(given[-1]),
    help="Metadata of the entity. Repeatable.",
)
