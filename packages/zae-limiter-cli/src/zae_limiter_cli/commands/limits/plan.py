"""`zae-limiter limits plan` and `diff`, which write nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import CommandError
from ...options import DEFAULT_NAMESPACE, DocumentForm, connected
from ...progress import reporter
from .options import (
    exit_code_option,
    files_option,
    form_option,
    namespace_option,
    share_option,
    take_over_option,
    target_option,
    view_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zae_limiter_manifest import Address, LimitsManifest, Plan
    from zae_limiter_manifest.render.views import View

    from ...connection import Connection


@click.command(short_help="Show what an apply would change; read-only.")
@connected
@files_option(required=True)
@namespace_option
@form_option("text", "json", "markdown")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Save the plan for `limits apply FILE`.")
@exit_code_option("there are changes")
@take_over_option
@target_option
@share_option
@click.option(
    "--use",
    is_flag=True,
    help="Show the last day's use of the 20 largest cuts, how many entities a cut for many binds now, and what is left "
    "of 20 changed quotas; with your rights.",
)
@click.option(
    "--replay",
    metavar="TIME",
    help="Show who would have been refused since then, such as 24h, 7d or 'monday 9:00'; reads usage with your rights.",
)
@click.option(
    "--trace",
    metavar="PATH",
    help="File or folder with a trace for --replay, or `off`.  [default: what the namespace keeps]",
)
@view_options
def plan(
    *,
    connection: "Connection",
    files: tuple[str, ...],
    namespace: str | None,
    form: DocumentForm,
    out: Path | None,
    exit_code: bool,
    take_over: bool,
    targets: tuple[str, ...],
    share: str | None,
    use: bool,
    replay: str | None,
    trace: str | None,
    full: bool,
    entities: tuple[str, ...],
    pattern: str | None,
) -> None:
    """Show what would change, old -> new. The command writes, registers and locks nothing.

    Up to 20 changes are shown item by item. Of more it shows those that stand out, 20 at most, then the kinds of all
    others, those with the largest cuts first, and for each the number of items. --full shows each item; --entity and
    --filter show some.

    With --replay it tries the plan on the past: how many calls the new limits would have refused, whose and by which
    limit. It goes by the trace, where the namespace keeps one (`namespace trace`) or --trace names one, and by hourly
    usage for the rest, of which there are bounds: at least and at most. It needs usage that the aggregator counted, or
    a trace, and the right to read both (ReadPolicy).

    With --out it saves the plan of one namespace; `limits apply FILE` then applies exactly that plan, or fails.
    """
    from attrs import evolve

    from zae_limiter_manifest.render.views import View

    from ...limits.afterwards import notes_on
    from ...limits.asking import requests_of
    from ...limits.files import load_with_their_warnings
    from ...limits.provisioner import Planner
    from ...limits.replay.run import replays_of
    from ...limits.saved import SavedPlan
    from ...limits.showing import plan_of, say_beyond, show_plans
    from ...limits.targets import warn_of_idle

    if trace is not None and replay is None:
        raise CommandError("--trace is for a replay: pass --replay, such as --replay 24h, beside it")
    manifests, warnings = load_with_their_warnings(files, namespace)
    if out is not None and len(manifests) != 1:
        raise CommandError(f"--out saves the plan of one namespace, not of {len(manifests)}: plan them one by one")
    planner = Planner(connection, reporter(quiet=False))
    requests = requests_of("plan", manifests, take_over=take_over, targets=targets, share=share)
    answers = [planner.ask(request) for request in requests]
    plans = [plan_of(request.namespace, answer) for request, answer in zip(requests, answers, strict=True)]
    for answer in answers:
        say_beyond(str(answer.namespace), "the plan is", answer.beyond)
    warn_of_idle(targets, manifests, plans)
    risks = _risks_of(connection, manifests, plans) if use else {}
    chosen = View(full, frozenset(entities), pattern)
    replays = [] if replay is None else replays_of(connection, plans, replay, trace=trace, view=chosen)
    if out is not None:
        SavedPlan(connection.name, manifests[0], plans[0], targets).write(out)
    notes = notes_on(manifests, plans)
    show_plans(plans, form, evolve(chosen, risks=risks, notes=notes), replays, warnings)
    if exit_code and any(each.changes or each.moves_share for each in plans):
        raise click.exceptions.Exit(2)


@click.command(short_help="Show drift between files and the live table.")
@connected
@files_option(required=False)
@namespace_option
@click.option(
    "--with",
    "other",
    metavar="PLACE",
    help="Compare live limits with those of STACK, STACK@REGION, /NAMESPACE, STACK/NAMESPACE or sqlite:///FILE.",
)
@form_option("text", "json", "markdown")
@exit_code_option("there is drift, or a difference")
@share_option
@click.option("--unmanaged", is_flag=True, help="List items of the table that are neither declared nor managed.")
@view_options
def diff(
    *,
    connection: "Connection",
    files: tuple[str, ...],
    namespace: str | None,
    other: str | None,
    form: DocumentForm,
    exit_code: bool,
    share: str | None,
    unmanaged: bool,
    full: bool,
    entities: tuple[str, ...],
    pattern: str | None,
) -> None:
    """Show drift, items changed or deleted out of band since the last apply, then what is pending; read-only.

    With --with in place of files, show how the live limits of a namespace differ from those of another stack, region,
    file or namespace: `limits diff -N default --with staging`.

    Exit codes: 0; 1 for an error; with --exit-code 2 for drift. Pending changes alone are 0 here, and 2 of `limits
    plan --exit-code`.
    """
    from zae_limiter_manifest.render.views import View

    from ...limits.afterwards import levels_together
    from ...limits.asking import requests_of
    from ...limits.files import load_files
    from ...limits.provisioner import Planner
    from ...limits.showing import plan_of, show_drift

    if other is not None:
        if files or share is not None or unmanaged or form == "markdown":
            raise CommandError("--with compares live limits: pass no -f, --share, --unmanaged or -o markdown with it")
        view = View(full, frozenset(entities), pattern)
        _compare(connection, namespace or DEFAULT_NAMESPACE, other, form, view, exit_code=exit_code)
        return
    if not files:
        raise CommandError("nothing to compare with: pass -f FILE, or --with PLACE for another stack or namespace")
    planner = Planner(connection, reporter(quiet=False))
    manifests = load_files(files, namespace)
    requests = requests_of("diff", manifests, share=share)
    plans = [plan_of(request.namespace, planner.ask(request)) for request in requests]
    view = View(full, frozenset(entities), pattern, notes=levels_together(manifests, plans))
    show_drift(plans, form, list_unmanaged=unmanaged, view=view)
    if exit_code and any(each.drifted for each in plans):
        raise click.exceptions.Exit(2)


def _compare(
    connection: "Connection", namespace: str, other: str, form: DocumentForm, view: "View", *, exit_code: bool
) -> None:
    from ...limits.comparing import Side, compare, show_comparison, side_of

    here = Side(connection, namespace)
    there = side_of(other, here)
    plan = compare(here, there)
    show_comparison(here, there, plan, form, view)
    if exit_code and plan.changes:
        raise click.exceptions.Exit(2)


def _risks_of(
    connection: "Connection", manifests: "Sequence[LimitsManifest]", plans: "Sequence[Plan]"
) -> "Mapping[str, Mapping[Address, str]]":
    from ...limits.risks import risks_of  # which imports core: a plan without --use does not

    return risks_of(connection, plans, manifests)
