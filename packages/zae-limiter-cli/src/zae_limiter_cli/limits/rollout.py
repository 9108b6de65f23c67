"""One run of `limits apply`: plan, guard, ask and apply files or a saved plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from zae_limiter_manifest import Answer, LimitsManifest, Plan, Request

from .. import confirmation
from ..errors import CommandError
from ..options import DocumentForm
from .files import load_files
from .provisioner import Provisioner
from .saved import SavedPlan
from .showing import announce, plan_of, show_outcomes

OVERTAKEN: Final = frozenset({"stale", "different_plan"})
ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Rollout:
    """One run of `limits apply`; ``claims`` are the fields of its requests that say who applies, and how."""

    provisioner: Provisioner
    form: DocumentForm
    claims: Mapping[str, Any]
    allow_deletes: bool
    asks: bool

    def of_files(self, files: Sequence[str], *, take_over: bool) -> bool:
        """Apply manifests; whether all went well. All are planned before the first is applied."""
        manifests = load_files(files)
        requests = [self._request("plan", manifest, take_over=take_over) for manifest in manifests]
        plans = [self._plan(request) for request in requests]
        self._confirm(plans)
        pairs = zip(requests, plans, strict=True)
        return self._carry_out({request.namespace: self._apply(request, plan) for request, plan in pairs})

    def of_saved(self, path: Path, stack: str) -> bool:
        """Apply a plan exactly as it was saved; whether all went well."""
        saved = SavedPlan.read(path)
        if saved.stack != stack:
            raise CommandError(f"{path}: this plan is for the stack {saved.stack}: pass --name {saved.stack}")
        self._guard(saved.plan)
        self._confirm([saved.plan])
        request = self._request("apply", saved.manifest, take_over=saved.plan.taken_from is not None)
        return self._carry_out({request.namespace: self.provisioner.apply(_exactly(request, saved.plan))})

    def _request(self, action: Any, manifest: LimitsManifest, *, take_over: bool) -> Request:
        try:
            return Request.of(action, manifest, take_over=take_over, **self.claims)
        except (ValueError, TypeError) as error:
            raise CommandError(str(error)) from error

    def _plan(self, request: Request) -> Plan:
        plan = plan_of(request.namespace, self.provisioner.ask(request))
        self._guard(plan)
        return plan

    def _guard(self, plan: Plan) -> None:
        if (why := plan.why_guarded()) and not self.allow_deletes:
            raise CommandError(f"{plan.namespace}: the plan {why}: pass --allow-deletes to apply it")

    def _confirm(self, plans: Sequence[Plan]) -> None:
        changing = [plan for plan in plans if plan.changes]
        if changing and (self.form == "text" or self._can_ask):
            announce(changing, self.form)
        if changing and self._can_ask:
            confirmation.confirm("Apply?")

    @property
    def _can_ask(self) -> bool:
        return self.asks and confirmation.can_ask()

    def _apply(self, request: Request, plan: Plan) -> Iterator[Answer]:
        """What was shown is applied, or nothing: what is planned anew is shown, and asked about, as the first was."""
        for left in reversed(range(ATTEMPTS)):
            answers = self.provisioner.apply(_exactly(request, plan))
            yield (first := next(answers))
            yield from answers
            if not (left and _is_overtaken(first)):
                return
            self.provisioner.report(f"{request.namespace}: limits have changed since the plan: planned again")
            plan = self._plan(request)
            self._confirm([plan])

    def _carry_out(self, applies: Mapping[str, Iterator[Answer]]) -> bool:
        outcomes: dict[str, Answer] = {}
        try:
            for namespace, answers in applies.items():
                for answer in answers:
                    outcomes[namespace] = answer
        finally:  # whatever ends this, nobody shall have to guess what was made before
            show_outcomes(outcomes, self.form)
        return not any(answer.errors or answer.remaining for answer in outcomes.values())


def _is_overtaken(answer: Answer) -> bool:
    return answer.status == "failed" and any(failure.code in OVERTAKEN for failure in answer.errors)


def _exactly(request: Request, plan: Plan) -> Request:
    return evolve(request, action="apply", expected_serial=plan.serial, expected_plan=plan.changes_hash())
