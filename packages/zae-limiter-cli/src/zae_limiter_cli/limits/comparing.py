"""Compare the live limits of two places, each a namespace of a stack or of a file: two exports, and their differences.

Nothing is written anywhere, and each planner answers one request.
"""

import json
from dataclasses import dataclass, replace

import click
from attrs import evolve

from zae_limiter_manifest import LimitsManifest, LiveItem, ManagedSet, Plan, Request, compute_diff, fingerprint
from zae_limiter_manifest.render import as_json, as_text, words
from zae_limiter_manifest.render.views import View

from ..columns import counted
from ..connection import Connection
from ..errors import CommandError
from ..options import DocumentForm
from ..progress import reporter
from ..terminal import Terminal
from .asking import as_command_errors
from .provisioner import Planner
from .showing import refuse


@dataclass(frozen=True)
class Side:
    """A namespace, and where it is."""

    connection: Connection
    namespace: str

    @property
    def label(self) -> str:
        """Both as one text: `my-app/default`, `my-app@eu-west-1/default`."""
        region = f"@{self.connection.region}" if self.connection.region else ""
        return f"{self.connection.name}{region}/{self.namespace}"

    def export(self) -> LimitsManifest:
        """Return all live limits, and name on standard error the overrides, which are not among them. Raises
        ``CommandError``.
        """
        with as_command_errors():
            request = Request("export", self.namespace)
        answer = Planner(self.connection, reporter(quiet=False)).ask(request)
        refuse(self.label, answer)
        if answer.manifest is None:
            raise CommandError(f"{self.label}: the answer contains no manifest")
        for override in answer.plan.overrides if answer.plan else ():
            click.echo(f"{self.label}: left out: {override.address}, an override until {override.until}", err=True)
        return answer.manifest


def side_of(text: str, here: Side) -> Side:
    """Return the other side: `STACK`, `STACK@REGION`, either with `/NAMESPACE`, or `/NAMESPACE` alone, which is in the
    same place; or the URL of a file. Raises ``CommandError``.
    """
    if text.startswith("sqlite:"):
        other = Side(Connection.of_store(text, source="--with"), here.namespace)
    else:
        place, slash, namespace = text.partition("/")
        stack, at, region = place.partition("@")
        if not text or (slash and not namespace) or (at and not region) or (at and here.connection.file and not stack):
            raise CommandError(
                f"--with {text!r}: must be a stack, STACK@REGION, either with /NAMESPACE, /NAMESPACE alone, "
                "or a file like sqlite:///limits.db"
            )
        connection = here.connection
        if place:
            connection = replace(
                connection, name=stack or connection.name, region=region or connection.region, file=None
            )
        other = Side(connection, namespace or here.namespace)
    if other == here:
        raise CommandError(f"--with {text!r}: is the same namespace of the same place: nothing to compare")
    return other


def compare(here: Side, other: Side) -> Plan:
    """Return the changes that lead from the limits here to those there. Raises ``CommandError``."""
    ours, theirs = here.export(), other.export()
    live = {address: LiveItem(decl, fingerprint(decl)) for address, decl in ours.declared()}
    return compute_diff(evolve(theirs, namespace=here.namespace), live, managed=ManagedSet.of(live))


def show_comparison(here: Side, other: Side, plan: Plan, form: DocumentForm, view: View) -> None:
    """Print the differences: `-` is here alone, `+` there alone, and `old -> new` is here -> there."""
    if form == "json":
        (found,) = json.loads(as_json.render_plan(plan, view=view))["namespaces"]
        document = {
            "schema_version": 1,
            "kind": "comparison",
            "from": here.label,
            "to": other.label,
            "only_there": plan.created,
            "only_here": plan.deleted,
            "different": plan.updated,
            "changes": found["changes"],
        }
        click.echo(json.dumps(document, indent=2))
        return
    head = f"{here.label} -> {other.label}: "
    if not plan.changes:
        click.echo(f"{head}no difference in {counted(plan.declared, 'item')}.")
        return
    click.echo(f"{head}{plan.updated:,} different, {plan.created:,} only there (+), {plan.deleted:,} only here (-).")
    terminal = Terminal.of_stdout()
    text = as_text.render_plan(plan, color=terminal.colour, view=view)
    unsaid = {words.plan_summary(plan), *words.remarks(plan)}
    lines = [line for line in text.splitlines()[1:] if line not in unsaid]
    click.echo(terminal.fitted("\n".join(lines).rstrip("\n") + "\n"), nl=False)
