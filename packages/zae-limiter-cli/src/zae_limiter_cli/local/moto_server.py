"""Everything that knows moto: its server's application, and the functions in its backend.

Never: a change to moto's insides.
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
ITERATORS_REMEMBERED: Final = 1000

_MISMATCH: Final = refusal(
    400, "IdempotentParameterMismatchException", "the token was used for another transaction before"
)
_EXPIRED: Final = refusal(400, "ExpiredIteratorException", "the shard iterator has expired: get a new one")


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


class MotoDataPlane:
    """DynamoDB's items and streams in moto, which does three things less: this does them.

    Requests come one after the other, for moto's transactions are not atomic otherwise. A transaction whose token was
    seen is answered as before, and not done again. A transaction that fails ends all shard iterators: those of moto
    would read what it took back.
    """

    def __init__(self, moto: Application) -> None:
        self._moto = moto
        self._lock = Lock()
        self._done: OrderedDict[str, tuple[bytes, Answer]] = OrderedDict()
        self._iterators: OrderedDict[str, None] = OrderedDict()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """An answer as moto gives it."""
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = ITEMS_ACCOUNT
        with self._lock:
            match environ["HTTP_X_AMZ_TARGET"].rpartition(".")[2]:
                case "TransactWriteItems":
                    answer = self._transact(environ)
                case "GetShardIterator":
                    answer = self._remember(call(self._moto, environ), "ShardIterator")
                case "GetRecords":
                    answer = self._records(environ)
                case _:
                    answer = call(self._moto, environ)
        return reply(start_response, answer)

    def _transact(self, environ: Environ) -> Answer:
        body = body_of(environ)
        token = json.loads(body).get("ClientRequestToken")
        if token in self._done:
            before, answer = self._done[token]
            return answer if before == body else _MISMATCH
        answer = call(self._moto, environ)
        if answer[0] != 200:
            self._iterators.clear()
        elif token is not None:
            self._done[token] = body, answer
            _keep_last(self._done, TOKENS_REMEMBERED)
        return answer

    def _records(self, environ: Environ) -> Answer:
        if json.loads(body_of(environ)).get("ShardIterator") not in self._iterators:
            return _EXPIRED
        return self._remember(call(self._moto, environ), "NextShardIterator")

    def _remember(self, answer: Answer, name: str) -> Answer:
        iterator = json.loads(answer[2]).get(name)
        if iterator is not None:
            self._iterators[iterator] = None
            _keep_last(self._iterators, ITERATORS_REMEMBERED)
        return answer


def _keep_last(entries: OrderedDict[str, Any], most: int) -> None:
    while len(entries) > most:
        entries.popitem(last=False)
