"""Run `limits apply`: plan, guard, ask, and apply files or a saved plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from zae_limiter_manifest import Answer, Failure, LimitsManifest, Plan, Request, plans_hash
from zae_limiter_manifest.problems import printable
from zae_limiter_manifest.render.views import View
from zae_limiter_manifest.shares import WHOLE

from .. import confirmation
from ..connection import option_of
from ..errors import CommandError
from ..options import DocumentForm
from .afterwards import notes_on
from .asking import requests_of
from .files import load_files
from .invalidating import announce_invalidation, invalidate_changes
from .provisioner import Provisioner
from .saved import SavedPlan
from .showing import announce, plan_of, show_outcomes
from .targets import warn_of_idle

OVERTAKEN: Final = frozenset({"stale", "different_plan"})
ATTEMPTS: Final = 5
QUESTION: Final = "Apply?"


@dataclass(frozen=True, slots=True)
class Rollout:
    """One run of `limits apply`; ``claims`` are the fields of its requests that say who applies, and how.

    With ``now``, live buckets of what was changed are invalidated. With ``expected_hash``, only plans with this hash
    may be applied; with ``namespace``, only this one. With ``full``, each item of a large plan is shown.
    """

    provisioner: Provisioner
    form: DocumentForm
    claims: Mapping[str, Any]
    namespace: str | None
    allow_deletes: bool
    asks: bool
    now: bool
    full: bool
    quiet: bool
    expected_hash: str | None
    plans_again: bool = True

    def of_files(
        self, files: Sequence[str], *, take_over: bool, targets: Sequence[str] = (), share: str | None = None
    ) -> bool:
        """Apply manifests; return whether all went well. Plan all before the first is applied."""
        manifests = load_files(files, self.namespace)
        return self.of_manifests(manifests, take_over=take_over, targets=targets, share=share)

    def of_manifests(
        self,
        manifests: Sequence[LimitsManifest],
        *,
        take_over: bool = False,
        targets: Sequence[str] = (),
        share: str | None = None,
    ) -> bool:
        """Apply manifests as ``of_files`` does."""
        options = {"take_over": take_over, "targets": tuple(targets), "share": share, **self.claims}
        requests = requests_of("plan", manifests, **options)
        answers = {request.namespace: self._plan(request) for request in requests}
        if not self._are_accepted(answers):
            return False
        plans = _plans(answers)
        warn_of_idle(targets, manifests, plans)
        self._confirm(plans, manifests)
        pairs = zip(requests, plans, strict=True)
        return self._carry_out({request.namespace: self._apply(request, plan) for request, plan in pairs})

    def of_saved(self, path: Path) -> bool:
        """Apply a plan exactly as it was saved; return whether all went well."""
        saved = SavedPlan.read(path)
        if saved.stack != self.provisioner.connection.name:
            what = "file" if ":" in saved.stack else "stack"
            raise CommandError(f"{path}: this plan is for the {what} {saved.stack}: pass {option_of(saved.stack)}")
        if self.namespace not in (None, saved.plan.namespace):
            raise CommandError(f"{path}: this plan is for the namespace {saved.plan.namespace}, not {self.namespace}")
        if not self._are_accepted({saved.plan.namespace: self._guarded(Answer.planned(saved.plan))}):
            return False
        self._confirm([saved.plan], [saved.manifest])
        options = {"take_over": saved.plan.taken_from is not None, "targets": saved.targets, **self.claims}
        if saved.plan.moves_share:
            options["share"] = saved.plan.share or WHOLE
        (request,) = requests_of("apply", [saved.manifest], **options)
        return self._carry_out({request.namespace: self.provisioner.apply(_exactly(request, saved.plan))})

    def _plan(self, request: Request) -> Answer:
        """Return an answer with a plan that may be applied, or with a refusal."""
        answer = self.provisioner.ask(request)
        if answer.status != "failed":
            plan_of(request.namespace, answer)
        return self._guarded(answer)

    def _guarded(self, answer: Answer) -> Answer:
        if answer.plan is None or self.allow_deletes or not (why := answer.plan.why_guarded()):
            return answer
        return _refusal(answer.plan, "guarded", f"the plan {why}: pass --allow-deletes to apply it")

    def _are_accepted(self, answers: Mapping[str, Answer]) -> bool:
        """Show the refusals, in the chosen form, and return whether all plans may be applied."""
        refused = {namespace: answer for namespace, answer in answers.items() if answer.status == "failed"}
        refused = refused or self._other_than_expected(_plans(answers))
        if refused:
            show_outcomes(refused, self.form)
        return not refused

    def _other_than_expected(self, plans: Sequence[Plan]) -> dict[str, Answer]:
        if self.expected_hash is None or (found := plans_hash(plans)) == self.expected_hash:
            return {}
        told = printable(self.expected_hash)
        why = f'the hash of the plan is {found}, not "{told}" as expected: look at the plan, then pass its hash'
        return {plan.namespace: _refusal(plan, "different_plan", why) for plan in plans}

    def _confirm(self, plans: Sequence[Plan], manifests: Sequence[LimitsManifest]) -> None:
        changing = [plan for plan in plans if plan.changes or plan.moves_share]
        if changing and (self.asks or (self.form == "text" and not self.quiet)):
            announce(changing, self.form, View(self.full, notes=notes_on(manifests, changing)))
        if self.now:
            announce_invalidation(self.provisioner.connection, changing)
        if changing and self.asks:
            self._ask(changing)

    def _ask(self, changing: Sequence[Plan]) -> None:
        """Ask on the terminal. Raises ``CommandError`` where there is none, with what to pass in place of an answer."""
        if not confirmation.can_ask():
            only = f"--yes --expect-hash {plans_hash(changing)} applies this plan and no other"
            raise CommandError(f"{QUESTION} There is no terminal to answer on: pass --yes to confirm; {only}")
        confirmation.confirm(QUESTION)

    def _apply(self, request: Request, plan: Plan) -> Iterator[Answer]:
        """Yield the answers of an apply of exactly the plan that was shown. If it has to be planned again, show it and
        ask again.

        With an expected hash, and without ``plans_again``, never plan again: it would be another plan.
        """
        for left in reversed(range(ATTEMPTS if self.plans_again and self.expected_hash is None else 1)):
            answers = self.provisioner.apply(_exactly(request, plan))
            yield (first := next(answers))
            yield from answers
            if not (left and _is_overtaken(first)):
                return
            self.provisioner.report(f"{request.namespace}: limits have changed since the plan: planned again")
            again = self._plan(request)
            if again.plan is None or again.status == "failed":
                yield again
                return
            plan = again.plan
            self._confirm([plan], [request.manifest] if request.manifest else [])

    def _carry_out(self, applies: Mapping[str, Iterator[Answer]]) -> bool:
        outcomes: dict[str, Answer] = {}
        try:
            for namespace, answers in applies.items():
                for answer in answers:
                    outcomes[namespace] = answer
        finally:  # whatever ends this, the report says what was made before
            show_outcomes(outcomes, self.form)
        all_told = not self.now or invalidate_changes(self.provisioner.connection, outcomes)
        return all_told and not any(answer.errors or answer.remaining for answer in outcomes.values())


def _plans(answers: Mapping[str, Answer]) -> list[Plan]:
    return [answer.plan for answer in answers.values() if answer.plan]


def _refusal(plan: Plan, code: str, why: str) -> Answer:
    return Answer.failed([Failure(code, why)], namespace=plan.namespace)


def _is_overtaken(answer: Answer) -> bool:
    return answer.status == "failed" and any(failure.code in OVERTAKEN for failure in answer.errors)


def _exactly(request: Request, plan: Plan) -> Request:
    return evolve(request, action="apply", expected_serial=plan.serial, expected_plan=plan.changes_hash())
