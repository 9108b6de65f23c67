"""Rate limits of Flask's views: a decorator, or every request. Needs the extra ``flask``.

``init_app(app)`` once; then ``@RateLimited(...)`` on each view that is limited, or
``app.before_request(RateLimited(...).acquire)`` for all. The tokens are kept once the view has begun; with
``refund="before_answer"`` an unhandled exception or a server error (5xx) gives them back. Corrections
(``lease.settle``) are written when the server closes the response, so after the last byte of a stream.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, TypeVar, Unpack, cast

from flask import Flask, Response, current_app, g, request

from ..flows.acquire.requests import NO_DRAWS, EachCallOptions
from ..http import Show, check_show
from ..sync.lease import SyncLease
from ..sync.limiter import SyncRateLimiter
from ..values.draws import Draw
from ..values.estimates import Amount
from .addresses import AddressOptions, Proxies
from .answers import ANSWERED, Answered, AnswerOptions, Answers, NotServed, served
from .arguments import Rule
from .leases import Paced, Refund, SyncLeases
from .retries import FIELD, OF_BODY, key_of_request

F = TypeVar("F", bound=Callable[..., Any])
_EXTENSION: Final = "zae_limiter"  # of app.extensions
_LEASES: Final = "rate_limit_leases"  # of g
_SHOW: Final = "rate_limit_show"  # of g: what the latest limit shows


class RateLimited:
    """Takes the tokens of a request before its view runs.

    ``identity`` returns the entity's id. ``limiter``, ``resource``, ``cost`` (tokens by limit) and ``draws`` (further
    buckets) are values, or functions that return them. The functions take no argument: Flask has ``request`` and ``g``.
    A request that costs nothing (``{}``) is not limited. ``options`` are those of ``acquire``. ``refund``: ``"never"``
    once the view has begun, or ``"before_answer"``. ``show`` replaces that of ``init_app`` for these views.
    ``idempotency_key``: ``retry_key``, or another function; without one, each request counts.
    """

    def __init__(
        self,
        limiter: SyncRateLimiter | Callable[[], SyncRateLimiter],
        *,
        identity: Callable[[], str],
        resource: str | Callable[[], str],
        cost: Mapping[str, Amount] | Callable[[], Mapping[str, Amount]],
        draws: Sequence[Draw] | Callable[[], Sequence[Draw]] = NO_DRAWS,
        refund: Refund = "never",
        show: Show | None = None,
        idempotency_key: Callable[[], str | None] | None = None,
        **options: Unpack[EachCallOptions],
    ) -> None:
        self._rule = Rule(SyncRateLimiter, limiter, identity, resource, cost, draws, refund, options, idempotency_key)
        check_show("own" if show is None else show)
        self._show = show

    def __call__(self, view: F) -> F:
        """Limit a view, which may be ``async``."""

        @wraps(view)
        def limited(*args: Any, **kwargs: Any) -> Any:
            self.acquire()
            return current_app.ensure_sync(view)(*args, **kwargs)

        return cast("F", limited)

    def acquire(self) -> None:
        """Take the tokens of the current request. Raises the errors of ``acquire``."""
        if _EXTENSION not in current_app.extensions:
            raise LookupError("zae_limiter.integrations.flask is not installed in this application: call init_app(app)")
        if lease := self._rule.lease_of():
            setattr(g, _SHOW, self._show)
            if _LEASES not in g:
                setattr(g, _LEASES, SyncLeases())
            _leases().enter(lease, self._rule.refund)


def current_lease() -> SyncLease:
    """Return the request's lease, to settle or to consume more. Raises ``LookupError`` if the request is not
    limited.
    """
    if _LEASES not in g or (lease := _leases().last) is None:
        raise LookupError(f"the request to {request.path!r} has no lease: nothing limits it")
    return lease


def client_address(**options: Unpack[AddressOptions]) -> Callable[[], str]:
    """Return an ``identity``: the address of the client, as ``zae_limiter.integrations.addresses`` finds it."""
    proxies = Proxies(**options)
    return lambda: proxies.of_environ(request.environ)


def retry_key() -> str | None:
    """Return the key by which a retried request counts once: an ``idempotency_key``, of its ``Idempotency-Key``."""
    of_body = [", ".join(request.headers.getlist(name)) for name in OF_BODY]
    return key_of_request(request.method, request.full_path, request.headers.getlist(FIELD), of_body)


def init_app(app: Flask, **options: Unpack[AnswerOptions]) -> None:
    """Answer refusals, add header fields to responses, and end leases.

    ``show``, ``names``, ``units`` and ``legacy`` are options of ``zae_limiter.http.headers``. ``style="openai"``
    answers with errors and fields of OpenAI's API, ``payment_required=True`` with 402 where money is used up.
    """
    answers = app.extensions[_EXTENSION] = Answers(**options)

    def refused(error: Answered) -> Response:
        _end(error)
        answer = answers.showing(g.get(_SHOW)).to(error, request.path)
        return Response(answer.body, answer.status, answer.headers)

    def answered(response: Response) -> Response:
        if _LEASES not in g or (lease := _leases().last) is None:
            return response
        response.headers.update(answers.showing(g.get(_SHOW)).fields(lease))
        if served(response.status_code):
            leases = _leases()
            leases.keep()
            if leases.stall() is not None and not response.is_sequence:
                response.direct_passthrough = False  # of a file: its closing by the server would go unnoticed
                response.response = cast("Any", Paced(response.response, leases))
            elif response.direct_passthrough:
                leases.end()
            response.call_on_close(leases.end)
        else:
            _end(NotServed())
        return response

    for kind in ANSWERED:
        app.register_error_handler(kind, refused)
    app.after_request(answered)
    app.teardown_request(lambda error: None if error is None else _end(error))


def _leases() -> SyncLeases:
    return cast("SyncLeases", getattr(g, _LEASES))


def _end(error: BaseException) -> None:
    if _LEASES in g:
        _leases().end(error)
