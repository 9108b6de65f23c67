"""What is done for each action of a request.

Lives here: one short function for each. Never: where a request came from, or how its answer travels (handler).
"""

from zae_limiter import ZAELimiterError
from zae_limiter_manifest import (
    Answer,
    Failure,
    FormatError,
    LimitsManifest,
    ManifestError,
    Request,
    UnknownActionError,
    manifest_failures,
)

from .applying import Applying
from .asking import Asking
from .deadline import Deadline
from .locking import unlock
from .planning import answer_diff, answer_export, answer_plan, answer_state
from .refusals import Refused
from .table import Table


def read_request(plain: object) -> Request:
    """The request in plain values. Raises ``Refused``, and ``ManifestError`` for a manifest that is not valid."""
    try:
        return Request.from_dict(plain)
    except UnknownActionError as error:
        raise Refused("unknown_action", str(error)) from error
    except FormatError as error:
        raise Refused("bad_request", str(error)) from error


def perform(table: Table, request: Request, context: object = None) -> Answer:
    """The answer to a request; what goes wrong with the table, and every refusal, is an error in it."""
    try:
        return _perform(table, request, Deadline.of(context, table.now_ms))
    except Refused as refused:
        return refused.answer()
    except ManifestError as error:
        return Answer.failed(manifest_failures(error))
    except ZAELimiterError as error:
        return Answer.failed([Failure("table_failed", str(error))])


def _perform(table: Table, request: Request, deadline: Deadline) -> Answer:
    match request:
        case Request(action="apply", manifest=LimitsManifest() as manifest):
            repository = table.register(request.namespace)
            return Applying(repository, manifest, Asking.of(request), deadline).run()
        case Request(action="plan", manifest=LimitsManifest() as manifest):
            return answer_plan(table.find(request.namespace), manifest, take_over=request.take_over)
        case Request(action="diff", manifest=LimitsManifest() as manifest):
            return answer_diff(table.find(request.namespace), manifest)
        case Request(action="export"):
            return answer_export(table.find(request.namespace), request.namespace)
        case Request(action="unlock", lock_id=str(lock_id)):
            unlock(table.find(request.namespace), lock_id)
    return answer_state(table.find(request.namespace), request.namespace)
