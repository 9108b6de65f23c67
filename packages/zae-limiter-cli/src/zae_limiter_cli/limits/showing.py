"""Print plans, drift and outcomes on standard output, in the chosen format."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import click

from zae_limiter_manifest import Answer, ApplyEntry, Failure, Plan, plans_hash
from zae_limiter_manifest.render import as_json, as_markdown, as_text, words
from zae_limiter_manifest.render.sections import code
from zae_limiter_manifest.render.views import EVERYTHING, View
from zae_limiter_manifest.warned import Warned

from ..columns import counted, say_sentence
from ..errors import CommandError
from ..options import DocumentForm
from ..skipped import document
from ..terminal import Terminal
from .replay.showing import markdown, say_replays
from .replay.verdicts import Replayed

MOST_WARNINGS: Final = 20
OTHER_RELEASE: Final = (
    "this command finds no mistake in the manifest, so the stack's functions are of another release: see "
    "`zae-limiter status`, then run `zae-limiter upgrade`"
)
SHOWS_LINES: Final = (
    "`zae-limiter delegation list --bounds-of {namespace}` shows them, and `limits validate --bounds FILE` each line"
)


def show_plans(
    plans: list[Plan],
    form: DocumentForm,
    view: View = EVERYTHING,
    replays: Sequence[Replayed] = (),
    warnings: Sequence[Warned] = (),
) -> None:
    """Print what would change, what replays of it found, warnings of the manifests, and the hash that `limits apply
    --expect-hash` takes; people need none of a plan without changes, and a CI passes on the one that it finds.
    """
    match form:
        case "json":
            document = as_json.render_plan(*plans, view=view, warnings=warnings)
            found = {"replays": [each.to_dict() for each in replays]}
            text = f"{json.dumps(json.loads(document) | found, indent=2)}\n" if replays else document
        case "markdown":
            found_text = markdown(replays, full=view.full) + _as_list(warnings)
            text = f"{as_markdown.render_plan(*plans, view=view)}{found_text}\nPlan hash: `{plans_hash(plans)}`\n"
        case _:
            click.echo(_fitted(as_text.render_plan(*plans, color=_colour(), view=view)), nl=False)
            say_replays(replays, full=view.full)
            say_warnings(warnings)
            text = f"\nHash: {plans_hash(plans)}\n" if any(plan.changes for plan in plans) else ""
    click.echo(text, nl=False)


def say_warnings(warnings: Sequence[Warned]) -> None:
    """Print warnings on standard error with their lines of the file: the first of many, and how many there are."""
    for each in warnings[:MOST_WARNINGS]:
        say_sentence(f"Warning: {each}", err=True)
        if each.place is not None and each.place.excerpt:
            click.echo(Terminal.of_stderr().fitted(each.place.excerpt), err=True)
    if more := _more(warnings):
        say_sentence(f"Warning: {more}", err=True)


def say_beyond(namespace: str, what: str, beyond: Sequence[Failure]) -> None:
    """Print on standard error, on one line, what is beyond the bounds of a delegation."""
    if beyond:
        places = f"at {counted(len(beyond), 'place')}, first {words.failure_text(beyond[0])}"
        say_sentence(f"Warning: {namespace}: {what} beyond the bounds of its delegation {places}", err=True)


def _as_list(warnings: Sequence[Warned]) -> str:
    shown = [*map(str, warnings[:MOST_WARNINGS]), *filter(None, [_more(warnings)])]
    lines = "".join(f"- {code(line)}\n" for line in shown)
    return f"\n**Warnings**\n\n{lines}" if lines else ""


def _more(warnings: Sequence[Warned]) -> str:
    more = len(warnings) - MOST_WARNINGS
    return f"and {counted(more, 'more warning')}" if more > 0 else ""


def announce(plans: list[Plan], form: DocumentForm, view: View = EVERYTHING) -> None:
    """Print what is about to happen, for people: on standard error if standard output is a document."""
    beside = form != "text"
    terminal = Terminal.of_stderr() if beside else Terminal.of_stdout()
    click.echo(terminal.fitted(as_text.render_plan(*plans, color=terminal.colour, view=view)), err=beside)


def show_drift(plans: list[Plan], form: DocumentForm, *, list_unmanaged: bool, view: View = EVERYTHING) -> None:
    """Print what somebody else has changed."""
    match form:
        case "json":
            text = as_json.render_drift(*plans, view=view)
        case "markdown":
            text = as_markdown.render_drift(*plans, list_unmanaged=list_unmanaged, view=view)
        case _:
            text = _fitted(as_text.render_drift(*plans, color=_colour(), list_unmanaged=list_unmanaged, view=view))
    click.echo(text, nl=False)


def show_outcomes(outcomes: Mapping[str, Answer], form: DocumentForm) -> None:
    """Print the changes made in each namespace; print on standard error where none was made, and why."""
    documented = [each for each in outcomes.values() if form != "text" or each.status != "failed"]
    if documented:
        _show_applied(documented, form)
    for namespace, answer in outcomes.items():
        if answer.status == "failed":
            click.echo(f"Error: {_refusal(namespace, answer)}", err=True)


def _show_applied(answers: list[Answer], form: DocumentForm) -> None:
    match form:
        case "json":
            text = as_json.render_applied(*answers)
        case "markdown":
            text = as_markdown.render_applied(*answers)
        case _:
            text = _fitted(as_text.render_applied(*answers, color=_colour()))
    click.echo(text, nl=False)


def show_state(namespace: str, answer: Answer, form: DocumentForm, applies: Sequence[ApplyEntry] | None = None) -> None:
    """Print what is managed, by whom, and the apply under way; a document has the ``applies``, too. Raises
    ``CommandError`` if the answer has no state.
    """
    if answer.state is None:
        raise CommandError(f"{namespace}: the answer contains no state")
    if form == "json":
        text = as_json.render_state(namespace, answer.state, applies, **document())
    else:
        text = _fitted(as_text.render_state(namespace, answer.state))
    click.echo(text, nl=False)


def plan_of(namespace: str, answer: Answer) -> Plan:
    """Return the plan of an answer. Raises ``CommandError`` if the request was refused."""
    refuse(namespace, answer)
    if answer.plan is None:
        raise CommandError(f"{namespace}: the provisioner returned no plan")
    return answer.plan


def refuse(namespace: str, answer: Answer) -> None:
    """Raise ``CommandError`` if nothing was done."""
    if answer.status == "failed":
        raise _refusal(namespace, answer)


def _refusal(namespace: str, answer: Answer) -> CommandError:
    lines = [f"{namespace}: {words.failure_text(failure)}" for failure in answer.errors]
    if any(failure.code == "invalid_manifest" for failure in answer.errors):
        lines.append(f"{namespace}: {OTHER_RELEASE}")
    if any(failure.code == "beyond_bounds" for failure in answer.errors):
        lines.append(f"{namespace}: {SHOWS_LINES.format(namespace=namespace)}")
    return CommandError(*lines)


def _fitted(text: str) -> str:
    return Terminal.of_stdout().fitted(text)


def _colour() -> bool:
    return Terminal.of_stdout().colour


def report_left_out(answer: Answer) -> None:
    """Name on standard error the overrides, which the manifest leaves out, and the share that its limits have."""
    if answer.plan and answer.plan.share:
        share = f"these limits are the share of this region, {answer.plan.share} of those that were applied"
        click.echo(f"{answer.plan.namespace}: {share}: an apply of them would scale them again", err=True)
    for override in answer.plan.overrides if answer.plan else ():
        click.echo(f"left out: {override.address}, an override until {override.until}", err=True)
