"""Arrange the options in a command's help page: its own ones first, then those that many commands share, and under a
heading of their own those of the connection. What few people need is shown by ``--help-all`` alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

_ALL: Final = "zae_limiter_cli.help_all"
_SHARED: Final = (  # after a command's own
    *("--dry-run", "--yes", "--namespace", "--principal", "--output", "--quiet", "--debug", "--help-all", "--help"),
)


class ConnectionOption(click.Option):
    """An option that says where the table is."""


class RareOption(click.Option):
    """An option that few people need."""


def arrange(command: click.Command) -> None:
    """Have the help page of a command, which click made, in our order."""
    command.format_options = partial(write_options, command)  # type: ignore[method-assign]  # of this one


def write_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command or a group."""
    rare_too = context.meta.get(_ALL, False)
    for heading, options in zip(("Options", "Connection options"), in_order(command, context), strict=True):
        shown = (each for each in options if rare_too or not isinstance(each, RareOption))
        rows = [record for each in shown if (record := each.get_help_record(context))]
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def in_order(command: click.Command, context: click.Context) -> tuple[list[click.Parameter], list[click.Parameter]]:
    """Return all options but those of the connection, the shared ones last, and those of the connection."""
    everything = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    of_connection: list[click.Parameter] = [each for each in everything if isinstance(each, ConnectionOption)]
    return sorted((each for each in everything if not isinstance(each, ConnectionOption)), key=_place), of_connection


def help_all_option(function: Function) -> Function:
    """Add ``--help-all``, which shows the rare options, too."""
    told = "Show all options and exit."
    return click.option("--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help=told)(
        function
    )


def _place(parameter: click.Parameter) -> int:
    return next((place for place, name in enumerate(_SHARED) if name in parameter.opts), -1)


def _show_all(context: click.Context, _: click.Parameter, asked: bool) -> None:  # noqa: FBT001  click's signature
    if asked and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()
