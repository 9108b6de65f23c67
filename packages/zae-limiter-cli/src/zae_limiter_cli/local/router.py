"""Route requests to the parts of this AWS: moto, the data plane, or Lambda's processes."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from . import policies
from .custom_resources import CustomResources
from .functions import Functions, called
from .moto_stacks import following
from .state_dir import STATUS_PATH, THROTTLE_PATH
from .tables import Tables
from .throttle import Throttle
from .wsgi import Answer, Application, Environ, StartResponse, body_of, call, put_body, reply, scope_of

ITEM_READS: Final = frozenset({"BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems"})
ITEM_WRITES: Final = frozenset(
    {
        "BatchExecuteStatement",
        "BatchWriteItem",
        "DeleteItem",
        "ExecuteStatement",
        "ExecuteTransaction",
        "PutItem",
        "TransactWriteItems",
        "UpdateItem",
    }
)
TABLE_CHANGES: Final = frozenset({"CreateTable", "DeleteTable"})
STACK_CHANGES: Final = re.compile(rb"\bAction=(CreateStack|UpdateStack|DeleteStack|ExecuteChangeSet)\b")


class Router:
    """All of this AWS as one application.

    It calls ``written`` after every write of an item; ``status`` answers requests for ``STATUS_PATH``. What is put to
    ``THROTTLE_PATH`` throttles writes for a while.
    """

    def __init__(
        self,
        moto: Application,
        data_plane: Application,
        functions: Functions,
        custom_resources: CustomResources,
        *,
        written: Callable[[], None],
        status: Callable[[], Any],
    ) -> None:
        self._moto = moto
        self._data_plane = data_plane
        self._functions = functions
        self._custom_resources = custom_resources
        self._tables = Tables(moto, data_plane)
        self._written = written
        self._status = status
        self._throttle = Throttle()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return the answer of the part that a request is for."""
        if environ["PATH_INFO"] == STATUS_PATH:
            return reply(start_response, (200, [], json.dumps(self._status()).encode()))
        if environ["PATH_INFO"] == THROTTLE_PATH and environ["REQUEST_METHOD"] == "PUT":
            return reply(start_response, self._throttle.put(body_of(environ)))
        taken = self._custom_resources.take(environ)
        if taken is not None:
            return reply(start_response, taken)
        function = called(environ)
        if function is not None:
            return reply(start_response, self._functions.answer(function, environ))
        service, _, operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")
        if service.startswith("DynamoDBStreams_"):
            return self._read_stream(environ, start_response)
        if service.startswith("DynamoDB_"):
            return self._dynamodb(operation, environ, start_response)
        if scope_of(environ)[1] == "cloudformation" and STACK_CHANGES.search(body_of(environ)):
            return self._change_stack(environ, start_response)
        return self._moto(environ, start_response)

    def _dynamodb(self, operation: str, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if operation in ITEM_READS:
            return self._data_plane(environ, start_response)
        if operation in ITEM_WRITES:
            if (throttled := self._throttle.refused()) is not None:
                return reply(start_response, throttled)
            try:
                return self._data_plane(environ, start_response)
            finally:
                self._written()
        if operation in TABLE_CHANGES:
            return reply(start_response, self._changed_tables(environ))
        if operation == "UpdateTimeToLive":
            return self._change_ttl(environ, start_response)
        if operation == "DescribeTable":
            return self._describe(environ, start_response)
        return self._moto(environ, start_response)

    def _change_stack(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        left = policies.going(self._moto, environ)
        with following(scope_of(environ)[0]):
            answer = self._changed_tables(environ)
        if answer[0] == 200:
            policies.delete(self._moto, left, region=scope_of(environ)[0])
        return reply(start_response, answer)

    def _changed_tables(self, environ: Environ) -> Answer:
        answer = call(self._moto, environ)
        self._tables.follow(scope_of(environ)[0])
        return answer

    def _change_ttl(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        table = json.loads(body_of(environ))["TableName"]
        answer = call(self._moto, environ)
        if answer[0] == 200:
            self._tables.follow_ttl(table, scope_of(environ)[0])
        return reply(start_response, answer)

    def _describe(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        region, _ = scope_of(environ)
        status, headers, body = call(self._moto, environ)
        if status == 200:
            told = json.loads(body)
            told["Table"].update(self._tables.counted(told["Table"]["TableName"], region))
            body = json.dumps(told).encode()
            headers = [(name, value) for name, value in headers if name.lower() != "x-amz-crc32"]
        return reply(start_response, (status, headers, body))

    def _read_stream(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Forward a request for a stream with the data plane's name for it; the caller uses the declared table's."""
        asked = json.loads(body_of(environ))
        table = asked.get("StreamArn", "").partition(":table/")[2].partition("/")[0]
        arn = self._tables.stream_arn(table, scope_of(environ)[0]) if table else None
        if arn is not None:
            put_body(environ, json.dumps({**asked, "StreamArn": arn}).encode())
        return self._data_plane(environ, start_response)
