"""Print which releases are installed, for ``--version``."""

from importlib.metadata import version
from typing import Final

import click

from . import namesake
from .columns import say_columns
from .errors import Function

DISTRIBUTIONS: Final = tuple(f"zae-limiter-{part}" for part in ("core", "manifest", "provisioner", "aggregator", "cli"))


def version_option(function: Function) -> Function:
    """Add ``--version``. Its exit code is 1 where another project's distribution `zae-limiter` is installed as well."""
    told = "Print the installed versions and exit."
    return click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print, help=told)(
        function
    )


def _print(context: click.Context, _: click.Parameter, asked: bool) -> None:  # noqa: FBT001  click's signature
    if not asked or context.resilient_parsing:
        return
    problem, schema = namesake.problem(), []
    if problem is None:  # else the module may be the other project's
        from zae_limiter.values.versions import SCHEMA_VERSION

        schema = [("schema", str(SCHEMA_VERSION))]
    say_columns([*((name, version(name)) for name in DISTRIBUTIONS), *schema])
    if problem is not None:
        raise click.ClickException(problem)
    context.exit()
