"""`zae-limiter why`."""

from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from ..behind import note_behind
from ..columns import say_json
from ..data.parsing import consume_option, draw_option
from ..errors import CommandError
from ..options import OutputForm, given_options, output_option
from ..paging import in_repository

if TYPE_CHECKING:
    from decimal import Decimal

    from zae_limiter import Draw, SyncRepository


@click.command()
@in_repository
@click.argument("entity_id")
@click.argument("on_resource", metavar="[RESOURCE]", required=False)
@click.option(
    "--resource",
    "-r",
    metavar="NAME",
    help="The resource, if it is not the second word.  [default: all that refused it]",
)
@consume_option
@draw_option
@click.option("--cascade", is_flag=True, help="The call passes cascade=True.  [default: as the entity does]")
@output_option
def why(
    *,
    repository: "SyncRepository",
    entity_id: str,
    on_resource: str | None,
    resource: str | None,
    consume: "dict[str, int | Decimal] | None",
    draws: "list[Draw]",
    cascade: bool,
    output: OutputForm,
) -> None:
    """Show why an acquire of ENTITY_ID on RESOURCE is refused: every bucket that it draws on, the limit that binds,
    when it passes, who refused it in the last hour, who changed these limits, and what to do next. Without RESOURCE,
    list all resources that refused it in this hour or the one before, the worst first, with what holds there now.

    Without -c it asks for one token of each limit; if that passes, and the entity was refused, for what its last
    refused call asked for, or else for the mean of its calls.

    It takes no tokens and writes nothing. It costs two reads for an entity and its parent, one query for the usage, and
    one for the changes; two reads more for the mean, three for an override. What a process has prefetched, and limits
    that a call passes, are known to that process only.
    """
    from ..explanation.next_steps import next_steps
    from ..explanation.plain import plain_report
    from ..explanation.report import read_report
    from ..explanation.showing import say_report

    if on_resource is not None and resource is not None:
        raise CommandError("name one resource: why ENTITY_ID RESOURCE, or -r RESOURCE")
    if on_resource is None and resource is None:
        if consume or draws:
            raise CommandError("-c and --draw are about one resource: pass it, why ENTITY_ID RESOURCE")
        _everywhere(repository, entity_id, output, cascade=cascade)
        return
    report = read_report(repository, entity_id, resource or str(on_resource), consume, draws=draws, cascade=cascade)
    note_behind(repository, [(each.entity_id, each.resource) for each in report.explanation.buckets])
    steps = next_steps(report, given_options())
    if output == "json":
        say_json(plain_report(report, steps))
    else:
        say_report(report, steps, width=get_terminal_size().columns)


def _everywhere(repository: "SyncRepository", entity_id: str, output: OutputForm, *, cascade: bool) -> None:
    from ..explanation.everywhere import plain_everywhere, read_everywhere, say_everywhere

    found = read_everywhere(repository, entity_id, cascade=cascade)
    note_behind(repository, found.places)
    steps = found.steps(given_options())
    if output == "json":
        say_json(plain_everywhere(found, steps))
    else:
        say_everywhere(found, steps)
