"""What lives here: all that knows moto: its server's application, and reading a function out of its backend.
What never does: a change to moto's insides.
"""

import json
import logging
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any, Final

import moto.cloudformation.models  # noqa: F401  takes seconds, and the first request of `deploy` has only a few
from moto.backends import get_backend
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app

from .lambdas.function import Function
from .wsgi import Answer, Application, Environ, StartResponse, body_of, call, refusal, reply

# Items stand in an account of their own: to a table that has an event source mapping moto would deliver by itself,
# through Docker, and drop the stream's records.
ITEMS_ACCOUNT: Final = "000000000001"

TOKENS_REMEMBERED: Final = 1000

_MISMATCH: Final = refusal(
    400, "IdempotentParameterMismatchException", "the token was used for another transaction before"
)


class RequestHandler(MotoRequestHandler):
    """Of moto's server, without a delay for small answers, and silent."""

    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  the server's name for it
        """Say nothing: requests are not news."""


def application() -> Application:
    """All of AWS that moto has; what its CloudFormation leaves out is in our docs, not in a warning each."""
    warnings.filterwarnings("ignore", module=r"moto\.cloudformation")
    logging.getLogger("moto").setLevel(logging.ERROR)
    made: Application = DomainDispatcherApplication(create_backend_app)
    return made


def function_of(name: str, *, region: str, qualifier: str | None) -> tuple[Function, bytes] | None:
    """A function by name or ARN, and its zip; ``None`` where there is none."""
    from moto.awslambda.exceptions import UnknownFunctionException

    backend = get_backend("lambda")[DEFAULT_ACCOUNT_ID][region]
    try:
        found = backend.get_function(name, qualifier)
    except UnknownFunctionException:
        return None
    function = Function.from_configuration(found.get_configuration(), concurrency=found.reserved_concurrency)
    return function, found.code_bytes


class MotoPlane:
    """DynamoDB's items and streams in moto, which does two things less: this does them.

    Requests come one after the other, for moto's transactions are not atomic otherwise. A transaction whose token was
    seen is answered as before, and not done again.
    """

    def __init__(self, moto: Application) -> None:
        self._moto = moto
        self._lock = Lock()
        self._done: OrderedDict[str, tuple[bytes, Answer]] = OrderedDict()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """An answer as moto gives it."""
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = ITEMS_ACCOUNT
        with self._lock:
            if environ["HTTP_X_AMZ_TARGET"].endswith(".TransactWriteItems"):
                answer = self._transact(environ)
            else:
                answer = call(self._moto, environ)
        return reply(start_response, answer)

    def _transact(self, environ: Environ) -> Answer:
        body = body_of(environ)
        token = json.loads(body).get("ClientRequestToken")
        if token in self._done:
            before, answer = self._done[token]
            return answer if before == body else _MISMATCH
        answer = call(self._moto, environ)
        if token is not None and answer[0] == 200:
            self._done[token] = body, answer
        while len(self._done) > TOKENS_REMEMBERED:
            self._done.popitem(last=False)
        return answer
