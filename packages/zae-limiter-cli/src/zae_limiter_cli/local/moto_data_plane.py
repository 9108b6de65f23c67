"""Serve DynamoDB's items and streams from moto, with what moto leaves out."""

import json
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from threading import Lock
from typing import Final

from .moto_items import ITEMS_ACCOUNT, trim, unusable, way_back
from .wsgi import Answer, Application, Environ, StartResponse, body_of, call, is_awaited, refusal, reply, scope_of

TOKENS_REMEMBERED: Final = 1000

_NOBODY_WAITS: Final = refusal(500, "InternalServerError", "the caller hung up before its turn came")
_MISMATCH: Final = refusal(
    400, "IdempotentParameterMismatchException", "the token was used for another transaction before"
)
_UNUSABLE: Final = {
    "ExpiredIteratorException": "the shard iterator has expired: get a new one",
    "TrimmedDataAccessException": "the records were trimmed: begin again at the oldest one there is, TRIM_HORIZON",
}


class MotoDataPlane:
    """A data plane that answers one request after the other, because moto's transactions are not atomic otherwise.

    It drops a request whose caller has hung up before its turn. A caller that repeats a slow request would otherwise
    make all others wait longer, and repeat, too. A transaction that fails changes nothing. A transaction whose request
    token was seen gets the same answer, and is not done again.
    """

    def __init__(self, moto: Application) -> None:
        self._moto = moto
        self._lock = Lock()
        self._done: OrderedDict[str, tuple[bytes, Answer]] = OrderedDict()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return moto's answer."""
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = ITEMS_ACCOUNT
        with self._lock:
            answer = self._answer(environ) if is_awaited(environ) else _NOBODY_WAITS
        return reply(start_response, answer)

    def _answer(self, environ: Environ) -> Answer:
        region, _ = scope_of(environ)
        match environ["HTTP_X_AMZ_TARGET"].rpartition(".")[2]:
            case "TransactWriteItems":
                answer = self._transact(environ, region)
            case "GetRecords":
                answer = self._records(environ, region)
            case _:
                answer = call(self._moto, environ)
        trim(region)
        return answer

    def _transact(self, environ: Environ, region: str) -> Answer:
        body = body_of(environ)
        digest, asked = sha256(body).digest(), json.loads(body)
        token = asked.get("ClientRequestToken")
        if token in self._done:
            before, answer = self._done[token]
            return answer if before == digest else _MISMATCH
        undo, done = way_back(asked, region), False
        try:
            answer = call(self._moto, environ)
            done = answer[0] == 200
        finally:
            if not done:
                undo()
        if done and token is not None:
            self._done[token] = digest, answer
            if len(self._done) > TOKENS_REMEMBERED:
                self._done.popitem(last=False)
        return answer

    def _records(self, environ: Environ, region: str) -> Answer:
        reason = unusable(json.loads(body_of(environ)).get("ShardIterator"), region)
        return refusal(400, reason, _UNUSABLE[reason]) if reason else call(self._moto, environ)
