"""Warn of limits that are named as money and count tokens, as a shell leaves them of `"usd: $250/month"`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zae_limiter import Limit


def warn_of_bare_money(limits: "Iterable[Limit]") -> None:
    """Say on standard error which limits have the name of a currency, and no money; those that block have no amount."""
    from zae_limiter_manifest.meanings import bare_money

    for limit in limits:
        bare = bare_money(limit.name, limit) if limit.capacity else None
        if bare is not None:
            click.echo(
                f"Warning: {limit.name} is {limit.text}, in tokens: price lists count {bare.tokens:,} as "
                f"{bare.counted}. For money write '{limit.name}: {bare.in_money(limit.text)}' "
                "in single quotes: in double quotes a shell expands $.",
                err=True,
            )
