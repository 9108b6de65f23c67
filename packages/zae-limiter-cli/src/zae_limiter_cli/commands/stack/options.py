"""The options of a stack as options of the command line."""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import wraps
from typing import Any, Final

import click

from ...help_page import RareOption, help_all_option
from ...options import Function
from ...stack.options import COMMON, PRODUCTION, StackOptions, flag, without

NAMES: Final = tuple(each.name for each in fields(StackOptions))


def stack_options(function: Function) -> Function:
    """Add every option of a stack, the rare ones for ``--help-all``; the command gets ``chosen``, with ``None`` for
    those that were left out.
    """

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        chosen = {name: kwargs.pop(name) for name in NAMES}
        return function(*args, chosen=chosen, **kwargs)

    made: Callable[..., Any] = help_all_option(command)
    for each in reversed(fields(StackOptions)):
        made = _option(each)(made)
    return made  # type: ignore[return-value]  # click hands it the rest


def production_option(function: Function) -> Function:
    """Add ``--production``; the command gets ``production``."""
    asked = " ".join(map(flag, PRODUCTION))
    told = f"Turn on what production needs: {asked}. Other options override it."
    return click.option("--production", is_flag=True, help=told)(function)


errors_only_option = click.option(
    "--quiet", "-q", is_flag=True, help="Print only errors; with --output json also the result."
)


def _tags(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    tags = {}
    for each in given:
        key, equal, value = each.partition("=")
        if not (key and equal) or key.startswith("aws:"):
            raise click.BadParameter(
                f"{each!r} is not KEY=VALUE, or has the reserved prefix 'aws:'.", context, parameter
            )
        tags[key] = value
    return tags


tag_option = click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_tags,
    help="Tag of the stack and its resources. Repeatable.",
)


def _option(each: Field[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    told, rule = each.metadata["help"], each.metadata
    kind = click.Option if each.name in COMMON else RareOption
    if isinstance(each.default, bool):
        both = f"{flag(each.name)}/{without(each.name)}"
        shown = f"{told}  [default: {'on' if each.default else 'off'}]"
        return click.option(both, each.name, cls=kind, default=None, help=shown)
    shown = f"{told}  [default: {each.default}]" if each.default != "" else told
    return click.option(flag(each.name), each.name, cls=kind, type=_type(each.default, rule), default=None, help=shown)


def _type(default: Any, rule: Mapping[str, Any]) -> Any:
    if "among" in rule and isinstance(default, str):
        return click.Choice(rule["among"])
    if "least" in rule:
        return click.IntRange(rule["least"], rule["most"])
    return type(default)
