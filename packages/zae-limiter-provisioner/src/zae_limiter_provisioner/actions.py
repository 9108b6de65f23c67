"""Perform the actions of a request: plan, apply, diff, export, state, unlock, watch, stop, history, show, and those of
bounds.

``handler`` knows where a request comes from, and sends the answer.
"""

from collections.abc import Callable, Mapping
from typing import Final

from attrs import evolve

from zae_limiter import ZAELimiterError
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import CLI, Answer, FormatError, LimitsManifest, ManifestError, Request, UnknownActionError
from zae_limiter_manifest.naming import NameKind, find_name_problem

from .apply import ApplyRun
from .apply_options import ApplyOptions
from .bounds import answer_bounds, change_bounds, check_bounds, find_beyond_bounds
from .deadline import Deadline
from .delegated import alias_in
from .history import answer_history, answer_show
from .locking import stop, unlock
from .planning import answer_diff, answer_export, answer_plan, answer_state, answer_watch
from .refusals import Refused, failed_answer
from .table import Table

LISTED_BYTES: Final = 7_000_000  # of changes in the answer to an apply: the list takes ten times that in memory


def read_request(plain: object) -> Request:
    """Parse a request from plain values. Raises ``Refused``, and ``ManifestError`` for an invalid manifest."""
    try:
        return Request.from_dict(plain)
    except UnknownActionError as error:
        raise Refused("unknown_action", str(error)) from error
    except FormatError as error:
        raise Refused("bad_request", str(error)) from error


def namespace_in(plain: object) -> str | None:
    """Return the namespace that a request names, even if the request is invalid otherwise."""
    request = plain if isinstance(plain, Mapping) else {}
    manifest = request.get("manifest")
    named = request.get("namespace", manifest.get("namespace") if isinstance(manifest, Mapping) else None)
    return None if find_name_problem(NameKind.NAMESPACE, named) else str(named)


def perform(table: Table, request: Request, context: object = None) -> Answer:
    """Carry out a request. Refusals and errors of the table become errors in the answer."""
    return _answered(request, lambda: _perform(table, request, context))


def read(table: Table, request: Request, context: object = None) -> Answer:
    """Carry out a request that writes nothing; refuse any other one. Errors become errors in the answer, as in
    ``perform``.
    """
    return _answered(request, lambda: _read(table, request, context))


def _answered(request: Request, act: Callable[[], Answer]) -> Answer:
    try:
        return act()
    except (Refused, ManifestError, ZAELimiterError) as error:
        return failed_answer(error, request.namespace)


def _perform(table: Table, request: Request, context: object) -> Answer:
    match request:
        case Request(action="apply", next=str()):
            raise Refused(
                "bad_request", "the answer to an apply has one page: asking for another page would apply again"
            )
        case Request(action="apply", manifest=LimitsManifest() as manifest):
            alias = alias_in(context)
            if alias is not None:
                check_bounds(table, manifest, alias)
            repository = table.register(request.namespace)
            options, deadline = ApplyOptions.of(request, alias), Deadline.of(context, table.now_ms)
            return ApplyRun(repository, manifest, options, deadline, listed_bytes=LISTED_BYTES).run()
        case Request(action="unlock", lock_id=str(lock_id)):
            repository = table.open(request.namespace)
            unlock(SyncMaintenance(repository), lock_id)
            return answer_state(repository)
        case Request(action="stop"):
            repository = table.open(request.namespace)
            return answer_state(repository, stop(repository, request.principal or CLI, now_ms=table.now_ms()))
        case Request(action="bind" | "unbind"):
            return change_bounds(table, request, context)
    return _read(table, request, context)


def _read(table: Table, request: Request, context: object) -> Answer:
    match request:
        case Request(action="plan", manifest=LimitsManifest() as manifest):
            beyond = find_beyond_bounds(table, manifest, alias_in(context))
            repository = table.find(request.namespace)
            takes_over, share = request.take_over, request.share
            answer = answer_plan(repository, manifest, take_over=takes_over, targets=request.targets, share=share)
            return evolve(answer, beyond=beyond)
        case Request(action="diff", manifest=LimitsManifest() as manifest):
            return answer_diff(table.find(request.namespace), manifest, share=request.share)
        case Request(action="export"):
            return answer_export(table.open(request.namespace))
        case Request(action="state"):
            return answer_state(table.open(request.namespace))
        case Request(action="watch"):
            return answer_watch(table.open(request.namespace))
        case Request(action="history"):
            return answer_history(table.open(request.namespace))
        case Request(action="bounds"):
            return answer_bounds(table, request.namespace)
        case Request(action="show", serial=int(serial)):
            return answer_show(table.open(request.namespace), serial)
    raise Refused("read_only", f"the planner writes nothing: send the action {request.action} to the provisioner")
