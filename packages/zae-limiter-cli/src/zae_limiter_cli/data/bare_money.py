"""Warn of limits that are named as money and count tokens, as a shell leaves them of `"usd: $250/month"`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zae_limiter import Limit


def warn_of_bare_money(limits: "Iterable[Limit]") -> None:
    """Say on standard error which limits have the name of a currency, and no money; those that block have no amount."""
    from zae_limiter.values.money import MICRO, write_money
    from zae_limiter_manifest.meanings import currency_of

    for limit in limits:
        code = currency_of(limit.name)
        if code is None or limit.unit or limit.kind == "concurrent" or not limit.capacity:
            continue
        amount = limit.refill_amount if limit.kind == "token_bucket" else limit.capacity
        when = limit.text.removeprefix(limit.text.replace("/", " ").split()[0])
        click.echo(
            f"Warning: {limit.name} is {limit.text}, in tokens: price lists count {amount:,} as "
            f"{write_money(amount, code)}. For money write '{limit.name}: {write_money(amount * MICRO, code)}{when}' "
            "in single quotes: in double quotes a shell expands $.",
            err=True,
        )
