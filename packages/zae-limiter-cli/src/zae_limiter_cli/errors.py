"""Show errors to people: one line with the mistake, or the traceback with `--debug`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from traceback import format_exception
from typing import IO, Any, Final, TypeVar

import click

from . import namesake
from .help_page import write_options

Function = TypeVar("Function", bound=Callable[..., Any])

_DEBUG: Final = "zae_limiter_cli.debug"
_WORDS: Final = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
}
_AUTO_APPROVE: Final = frozenset({"-auto-approve", "--auto-approve"})  # of other tools, which is `--yes` here
_CHECK: Final = "check --endpoint-url, --region and the network"


def _remember(context: click.Context, _: click.Parameter, debug: bool) -> None:  # noqa: FBT001  click's signature
    context.meta[_DEBUG] = debug or context.meta.get(_DEBUG, False)


def debug_option(function: Function) -> Function:
    """Add the option `--debug`, which may stand before a command's name or behind it."""
    option = click.option("--debug", is_flag=True, expose_value=False, callback=_remember, help="Show tracebacks.")
    return option(function)


def one_line(text: str) -> str:
    """Return the text on one line, in printable characters, so that a setting or an answer cannot imitate other
    output.
    """
    from zae_limiter_manifest.problems import printable

    return printable(" ".join(text.splitlines()))


class CommandError(Exception):
    """A command cannot do what it was asked to; its lines say why, and what to do. No text in a line can look like
    another line.
    """

    def __str__(self) -> str:
        return "\n".join(one_line(str(line)) for line in self.args)


class _Mistakes(click.ClickException):
    """Lines that begin with the place in a file, where editors and CI look for it: nothing stands before it."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file, err=file is None)


class Commands(click.Group):
    """A group that exits with code 1 and a line on stderr, or one for each mistake in a manifest."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the arguments as a group does, but exit with code 1 for a usage error."""
        with _code_one():
            return super().make_context(*args, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options; those of the connection last."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as a group does; an error about a name that there is none of says which one may be meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from .meant import meant

            if self.get_command(ctx, args[0]) is None and (close := meant(ctx, args[0])):
                raise click.UsageError(f"No such command {args[0]!r}. Did you mean {close}?", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run as a group does, but without a traceback for errors that people can correct."""
        try:
            with _code_one([*getattr(ctx, "_protected_args", ()), *ctx.args], ctx.command_path.split()[1:]):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise  # click knows how to end
        except Exception as error:
            shown = None if ctx.meta.get(_DEBUG) else _shown(error)
            if shown is None:
                _exit_if_secret(error)
                raise
            raise shown from error


@contextmanager
def _code_one(words: Sequence[str] = (), path: Sequence[str] = ()) -> Iterator[None]:
    """Exit with code 1 for a usage error: code 2 means changes for `--exit-code`. Omit click's usage line; `--help` has
    it. ``words`` are those of the command line behind the groups of ``path``.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError as error:
        error.exit_code = 1  # type: ignore[misc]  # click means it for classes
        raise
    except click.UsageError as error:
        told = _by_another_name(error, words, path) or one_line(" ".join(error.format_message().split()))
        for of_click, words in _WORDS.items():
            told = told.replace(of_click, words)
        told = told if told.endswith(("?", ".")) else f"{told}."
        way = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
        raise click.ClickException(f"{told}{way}") from error


def _by_another_name(error: click.UsageError, words: Sequence[str], path: Sequence[str]) -> str | None:
    """Return what to say of a command or an option that was renamed, or of one by which other tools do not ask."""
    from .renamed import renamed_command, renamed_option

    if (told := renamed_command(path, words)) is not None:
        return told
    if error.ctx is None or not isinstance(error, click.NoSuchOption):
        return None
    if (told := renamed_option(error.ctx.command_path.split()[1:], error.option_name)) is not None:
        return told
    tried = next((word for word in words if word in _AUTO_APPROVE), None)
    if tried is None:
        return None
    options = {name for each in error.ctx.command.params for name in each.opts}
    return f"No such option {tried!r}. Did you mean `--yes`?" if "--yes" in options else None


def _shown(error: Exception) -> click.ClickException | None:
    """Return the error to show; ``None`` for a mistake in our code, which needs its traceback."""
    if isinstance(error, ImportError) and (told := namesake.problem()):
        return click.ClickException(told)
    from zae_limiter_manifest import ManifestError

    if isinstance(error, ManifestError):
        return _Mistakes(error.with_excerpts())
    if isinstance(error, CommandError):
        return click.ClickException(str(error))
    message = message_of(error)
    return None if message is None else click.ClickException(one_line(_without_passwords(message)))


def _exit_if_secret(error: Exception) -> None:
    """Show a traceback that has the password of a proxy without it, and exit."""
    traceback = "".join(format_exception(error))
    if (shown := _without_passwords(traceback)) != traceback:
        click.echo(shown, err=True, nl=False)
        raise click.exceptions.Exit(1) from None


def _without_passwords(text: str) -> str:
    try:
        from zae_limiter.maintenance import without_passwords
    except ImportError:  # a namesake in its place: no request was sent
        return text
    return without_passwords(text)


def message_of(error: Exception) -> str | None:
    """Return what an error says to people, and what to do; ``None`` for a mistake in our code."""
    from zae_limiter import ZAELimiterError

    if isinstance(error, CommandError):
        return str(error)
    if isinstance(error, ZAELimiterError):
        return _core_message(error)
    if "botocore" in sys.modules and (told := _aws_message(error)) is not None:
        return told
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"the file is not UTF-8 text: {error.reason} at byte {error.start}"
    return None


def _core_message(error: Exception) -> str:
    """Return core's message on one line, with options and commands in place of the API where it says what to do."""
    from zae_limiter import EntityNotFoundError, RateLimiterUnavailable, ValidationError
    from zae_limiter.exceptions import NamespaceNotFoundError

    told = " ".join(str(error).split())
    match error:
        case NamespaceNotFoundError(deleted_id=None):
            return f"there is no namespace {error.namespace!r}: `zae-limiter namespace list` lists the namespaces"
        case NamespaceNotFoundError(copied_from=None):
            way_out = f"`zae-limiter namespace recover {error.deleted_id}` recovers it"
            return f"the namespace {error.namespace!r} was deleted: {way_out}"
        case EntityNotFoundError():
            return f"there is no entity {error.entity_id!r}: check the id and --namespace"
        case ValidationError(field="cascade"):
            return "--cascade: the entity needs a parent to consume from: pass --parent ID"
        case RateLimiterUnavailable() if any(isinstance(cause, OSError) for cause in _causes(error)):
            return f"{told}: {_CHECK}"
        case _:
            return _unsent(error) or told


def _unsent(error: Exception) -> str | None:
    """Return why the SDK could not send a request, such as no region; ``None`` if a request was sent."""
    if "botocore" not in sys.modules:
        return None
    from botocore.exceptions import BotoCoreError

    return next((_aws_message(cause) for cause in _causes(error) if isinstance(cause, BotoCoreError)), None)


def _causes(error: BaseException) -> Iterator[Exception]:
    while isinstance(cause := error.__cause__ or error.__context__, Exception):
        yield (error := cause)


def _aws_message(error: Exception) -> str | None:
    """Return the message of AWS or of the SDK, with what to do where the message does not say it."""
    from botocore import exceptions as aws
    from botocore.parsers import ResponseParserError

    match error:
        case aws.NoCredentialsError() | aws.PartialCredentialsError():
            return f"{error}: set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass --profile"
        case aws.NoRegionError():
            return "there is no AWS region: pass --region, or set AWS_REGION"
        case aws.ProfileNotFound():
            return f"{error}: `aws configure list-profiles` lists the profiles"
        case aws.ClientError(response={"Error": {"Code": code, "Message": message}}):
            return f"AWS refused {error.operation_name}: {message} ({code})"
        case aws.InvalidRegionError():
            return f"{str(error).removesuffix('.')}: check --region and AWS_REGION"
        case aws.EndpointConnectionError():
            return f"{error}: {_CHECK}"
        case ResponseParserError() | aws.ClientError():
            return "the endpoint's answer is not in AWS's format: an emulator may not support this request"
        case aws.BotoCoreError():
            return " ".join(str(error).split())
        case _:
            return None
