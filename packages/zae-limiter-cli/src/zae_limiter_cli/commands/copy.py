"""`zae-limiter copy`: namespaces from a file to a stack, or from any of them to another."""

from typing import TYPE_CHECKING, Any

import click

from ..columns import counted, say_columns, say_json
from ..confirmation import confirm
from ..errors import debug_option
from ..help_page import ConnectionOption
from ..options import OutputForm, output_option, quiet_option, yes_option
from ..progress import reporter

if TYPE_CHECKING:
    from zae_limiter.maintenance import CopyForecast

    from ..connection import Connection


@click.command()
@click.option("--from", "source", required=True, metavar="PLACE", help="File, such as sqlite:///limits.db, or stack.")
@click.option("--to", "target", required=True, metavar="PLACE", help="Stack, or file.")
@click.option("--namespace", "-N", "namespaces", multiple=True, help="Namespace; repeatable.  [default: all in use]")
@click.option("--region", cls=ConnectionOption, help="AWS region.  [default: the SDK's]")
@click.option("--profile", cls=ConnectionOption, help="AWS profile.  [default: the SDK's]")
@click.option(
    "--endpoint-url", cls=ConnectionOption, help="Address of AWS, such as http://localhost:4566.  [default: AWS]"
)
@click.option("--dry-run", is_flag=True, help="Show what would be copied, and its cost, without copying.")
@yes_option
@output_option
@quiet_option
@debug_option
def copy(
    *,
    source: str,
    target: str,
    namespaces: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    output: OutputForm,
    quiet: bool,
    **aws: str | None,
) -> None:
    """Copy namespaces with limits, entities, buckets, usage and audit events. Balances stay as they are.

    Stop the programs that use them first: what they change while the copy runs may stay behind. No one can open a
    namespace in the target before all of it is there; after an interruption, run the same command again.
    """
    from ..data.copying import both, place_of

    reading, writing = place_of(source, aws, option="--from"), place_of(target, aws, option="--to")
    with both(reading, writing, look=True) as copying:
        forecasts = copying.forecast(namespaces)
    wanted = [each for each in forecasts if not each.is_copied]
    if wanted and not (yes or dry_run):
        _show(forecasts, writing)
        confirm(_question(wanted, reading, writing))
    ids = dict[str, str]()
    if wanted and not dry_run:
        with both(reading, writing) as copying:
            ids = copying.run(wanted, reporter(quiet=quiet))
    if output == "json":
        say_json({"from": reading.name, "to": writing.name, "namespaces": [_as_json(each, ids) for each in forecasts]})
    elif dry_run:
        _show(forecasts, writing)
    elif not quiet:
        click.echo(_done(wanted, writing.name))


def _show(forecasts: "list[CopyForecast]", target: "Connection") -> None:
    if forecasts:
        say_columns([(each.namespace.name, *_cells(each, target)) for each in forecasts])
    else:
        click.echo("No namespace is in use there.")


def _cells(forecast: "CopyForecast", target: "Connection") -> tuple[str, str]:
    if forecast.is_copied:
        return counted(forecast.items, "item"), "copied before, stays as it is"
    return counted(forecast.items, "item"), _cost([forecast], target) or "to be copied"


def _cost(forecasts: "list[CopyForecast]", target: "Connection") -> str:
    """Return the write units, of the table and its indexes; nothing for a file."""
    units = sum(each.write_units + each.index_units for each in forecasts)
    return counted(units, "write unit") if target.file is None else ""


def _question(wanted: "list[CopyForecast]", source: "Connection", target: "Connection") -> str:
    what = f"{counted(len(wanted), 'namespace')} with {counted(sum(each.items for each in wanted), 'item')}"
    cost = _cost(wanted, target)
    stop = "What programs change there meanwhile may stay behind."
    return f"Copy {what} from {source.name} to {target.name}{cost and f' for {cost}'}? {stop}"


def _done(wanted: "list[CopyForecast]", target: str) -> str:
    if not wanted:
        return f"Nothing to copy: all of it is in {target}."
    names = ", ".join(each.namespace.name for each in wanted)
    return f"Copied to {target}: {names}, {counted(sum(each.items for each in wanted), 'item')}."


def _as_json(forecast: "CopyForecast", ids: dict[str, str]) -> dict[str, Any]:
    name = forecast.namespace.name
    units = {each: getattr(forecast, each) for each in ("items", "write_units", "index_units")}
    return {"namespace": name, **units, "copied_before": forecast.is_copied, "new_id": ids.get(name)}
