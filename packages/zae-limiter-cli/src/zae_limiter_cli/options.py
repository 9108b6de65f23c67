"""Add the options that all commands share: stack, AWS, a file in place of both, namespace, output format.

An option of a group holds for its commands, too, unless the command has it behind its own name.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from math import isfinite
from typing import Any, Final, Literal, TypeVar

import click
from click.core import ParameterSource

from .connection import TIMEOUT, Connection
from .errors import CommandError, debug_option
from .help_page import ConnectionOption

Function = TypeVar("Function", bound=Callable[..., Any])
OutputForm = Literal["table", "json"]
DocumentForm = Literal["text", "json", "markdown"]  # of limits in files

DEFAULT_STACK: Final = "zae-limiter"
DEFAULT_NAMESPACE: Final = "default"

_AWS: Final = {"name": "--name", "region": "--region", "profile": "--profile", "endpoint_url": "--endpoint-url"}
_SHOWN: Final[dict[str, Any]] = {"show_default": True, "show_envvar": True}
_STACK_NAMES: Final = ("--name", "-n")
_STACK: Final[dict[str, Any]] = {
    "envvar": "ZAEL_STACK",
    "default": DEFAULT_STACK,
    "help": "Stack, and its table.",
    **_SHOWN,
}


class FiniteRange(click.FloatRange):
    """A number within bounds, and no `nan`, which click lets through any bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises ``click.BadParameter``."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


stack_option = click.option(*_STACK_NAMES, cls=ConnectionOption, **_STACK)


def connection_options(function: Function) -> Function:
    """Add ``--name``, ``--region``, ``--profile``, ``--endpoint-url``, ``--store``, ``--timeout`` to a group, whose
    commands inherit them.
    """
    return _aws_options(_store_option(_timeout_option(function)))


def _store_option(function: Function, *, hidden: bool = False) -> Function:
    told = "File in place of a stack, such as sqlite:///limits.db."
    return _of_connection("--store", envvar="ZAEL_STORE", help=told, show_envvar=True, hidden=hidden)(function)


def _timeout_option(function: Function) -> Function:
    seconds = FiniteRange(min=1, max=900)
    told = "Seconds for each answer, with a second try."
    return _of_connection("--timeout", type=seconds, default=TIMEOUT, metavar="SECONDS", show_default=True, help=told)(
        function
    )


def _aws_options(function: Function) -> Function:
    for option in (
        _of_connection("--endpoint-url", help="Address of AWS, such as http://localhost:4566.  [default: AWS]"),
        _of_connection("--profile", help="AWS profile.  [default: the SDK's]"),
        _of_connection("--region", help="AWS region.  [default: the SDK's]"),
        _of_connection(*_STACK_NAMES, **_STACK),
    ):
        function = option(function)
    return function


def refuse_in_vain(context: click.Context) -> None:
    """Raise ``CommandError`` for options before a command that does not inherit them."""
    group, name = context.command, str(context.invoked_subcommand)
    command = group.get_command(context, name) if isinstance(group, click.Group) else None
    taken = {each.name for each in command.params if each.callback is _remember} if command else set()
    given = [
        each.opts[0]
        for each in context.command.params
        if each.callback is _remember
        and each.name not in taken
        and context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
    ]
    if command and given:
        help_of = f"`zae-limiter {name} --help`"
        raise CommandError(f"{' and '.join(given)} before `{name}` would mean nothing: see {help_of} for what it takes")


def connected(function: Function) -> Function:
    """Add the options of a connection, and ``--debug``; the command gets ``connection``, a `Connection` to a stack or a
    file.
    """

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        return function(*args, connection=_connection(), **kwargs)

    return debug_option(connection_options(command))  # type: ignore[return-value]  # click hands it the rest


def connected_to_stack(function: Function) -> Function:
    """Add what ``connected`` adds, to a command that needs a stack. A file is a ``CommandError`` unless the file is the
    environment's, and a stack was named.
    """

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        if _source("store") is ParameterSource.COMMANDLINE or (_value("store") and not _named()):
            path = click.get_current_context().command_path.partition(" ")[2]
            raise CommandError(
                f"`{path}` is for a stack in AWS, and {_store_source()} names a file: pass --name instead"
            )
        return function(*args, connection=_stack(), **kwargs)

    return debug_option(_aws_options(_store_option(_timeout_option(command), hidden=True)))  # type: ignore[return-value]  # as above


def chosen_connection(context: click.Context) -> Connection:
    """Return the connection that a command line names, which may be a shell's unfinished one."""
    with context.scope(cleanup=False):
        return _connection()


def chosen_namespace(context: click.Context) -> str:
    """Return the namespace that a shell's unfinished command line names; ``default`` for a command that has none."""
    with context.scope(cleanup=False):
        own = context.params.get("namespace")  # of a command that has one of its own, such as `limits plan`
        return str(_value("namespace") if _key("namespace") in context.meta else own or DEFAULT_NAMESPACE)


def _connection() -> Connection:
    """Return the connection that the options name. Raises ``CommandError`` if they name both a stack and a file."""
    if (url := _value("store")) is None:
        return _stack()
    if for_aws := _named(ParameterSource.COMMANDLINE):
        told = f"{' and '.join(for_aws)} would mean nothing"
        raise CommandError(f"{_store_source()} names a file, for which {told}: pass the one or the other")
    return replace(Connection.of_store(url, source=_store_source()), timeout=_value("timeout"))


def _stack() -> Connection:
    return Connection(**{name: _value(name) for name in _AWS}, timeout=_value("timeout"))


def _named(*sources: ParameterSource) -> list[str]:
    """Return the options of AWS that were given, by these sources or any."""
    wanted = sources or (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return [option for name, option in _AWS.items() if _source(name) in wanted]


def _store_source() -> str:
    return "--store" if _source("store") is ParameterSource.COMMANDLINE else "ZAEL_STORE"


def namespace_options(function: Function) -> Function:
    """Add ``--namespace`` to a group, whose commands inherit it."""
    return _inherited(
        "--namespace", "-N", envvar="ZAEL_NAMESPACE", default=DEFAULT_NAMESPACE, help="Namespace.", **_SHOWN
    )(function)


def given_options() -> list[str]:
    """Return the options of connection and namespace as the command line had them, to repeat them in other commands."""
    options = {**_AWS, "store": "--store", "namespace": "--namespace"}
    given = [name for name in options if _key(name) in click.get_current_context().meta]
    named = [name for name in given if _source(name) is ParameterSource.COMMANDLINE]
    return [word for name in named for word in (options[name], _value(name))]


def in_namespace(function: Function) -> Function:
    """Add the option ``--namespace``; the command gets ``namespace``, a name."""

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        return function(*args, namespace=_value("namespace"), **kwargs)

    return namespace_options(command)  # type: ignore[return-value]  # click hands it the rest


def output_option(function: Function) -> Function:
    """Add ``--output``; the command gets ``output``, an `OutputForm`."""
    forms = click.Choice(["table", "json"])
    return click.option("--output", "-o", type=forms, default="table", show_default=True, help="Output format.")(
        function
    )


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print results and errors only.")


yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")

# of a command that changes something without a question, so that a script passes it everywhere
yes_accepted = click.option(
    "--yes", "-y", is_flag=True, expose_value=False, help="No effect: this command does not ask."
)


def _of_connection(*names: str, **attributes: Any) -> Callable[[Function], Function]:
    return _inherited(*names, cls=ConnectionOption, **attributes)


def _inherited(*names: str, **attributes: Any) -> Callable[[Function], Function]:
    return click.option(*names, expose_value=False, callback=_remember, **attributes)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Store an option of the command line, which wins over any other source; of two, the one further to the right
    wins.
    """
    key, source = _key(str(parameter.name)), context.get_parameter_source(str(parameter.name))
    if source is ParameterSource.COMMANDLINE:
        context.meta[key] = value, source
    else:
        context.meta.setdefault(key, (value, source))


def _value(name: str) -> Any:
    return click.get_current_context().meta[_key(name)][0]


def _source(name: str) -> ParameterSource:
    """Return where the value of an option is from."""
    source: ParameterSource = click.get_current_context().meta[_key(name)][1]
    return source


def _key(name: str) -> str:
    return f"zae_limiter_cli.{name}"
