"""Read requests of the AWS protocol in WSGI, with their service and region, and call applications."""

import json
import socket
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any, Final
from urllib.parse import parse_qs, urlencode
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from .credentials import authorization

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
Answer = tuple[int, list[tuple[str, str]], bytes]

DEFAULT_REGION: Final = "us-east-1"

_CREDENTIAL: Final = "Credential="
_SCOPE_PARTS: Final = 5  # key, date, region, service, a fixed word


def scope_of(environ: Environ) -> tuple[str, str]:
    """Return the region and the service that a request was signed for."""
    parts = _credential(environ.get("HTTP_AUTHORIZATION", "")).split("/")
    return (parts[2], parts[3]) if len(parts) == _SCOPE_PARTS else (DEFAULT_REGION, "")


def key_of(environ: Environ) -> str:
    """Return the id of the key that signed a request, by its header or else by its URL; empty if none did.

    Anybody may send any header: no regular expression is used, which some text would keep busy.
    """
    header: str | None = environ.get("HTTP_AUTHORIZATION")
    if header is None:
        asked = parse_qs(environ.get("QUERY_STRING", ""))
        (credential, *_) = asked.get("X-Amz-Credential") or asked.get("AWSAccessKeyId") or [""]
        return str(credential.partition("/")[0])
    if header.startswith("AWS "):
        return header.removeprefix("AWS ").partition(":")[0]
    return _credential(header).partition("/")[0]


def _credential(header: str) -> str:
    """Return the credential in the header of a request that is signed with Signature Version 4."""
    scheme, _, parameters = header.partition(" ")
    if not scheme.startswith("AWS4-"):
        return ""
    named = (each for each in parameters.replace(",", " ").split() if each.startswith(_CREDENTIAL))
    return next(named, "").removeprefix(_CREDENTIAL)


def body_of(environ: Environ) -> bytes:
    """Return the body, and leave it to be read again."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    put_body(environ, body)
    return body


def put_body(environ: Environ, body: bytes) -> None:
    """Replace the body of a request."""
    environ["wsgi.input"] = BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))


def is_awaited(environ: Environ) -> bool:
    """Return whether the caller still waits for an answer, as far as its connection tells."""
    connection: socket.socket | None = environ.get("werkzeug.socket")
    if connection is None:
        return True
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def call(application: Application, environ: Environ) -> Answer:
    """Return the whole answer of an application."""
    started: list[tuple[int, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        started[:] = [(int(status.split(maxsplit=1)[0]), headers)]

    chunks = application(environ, start_response)
    try:
        body = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    (status, headers) = started[0]
    return status, headers, body


def reply(start_response: StartResponse, answer: Answer) -> Iterable[bytes]:
    """Send an answer."""
    status, headers, body = answer
    kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
    start_response(f"{status} -", [*kept, ("Content-Length", str(len(body)))])
    return [body]


def refusal(status: int, code: str, message: str) -> Answer:
    """Return an error of DynamoDB."""
    told = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}
    return status, [("Content-Type", "application/x-amz-json-1.0")], json.dumps(told).encode()


def dynamodb_request(operation: str, content: Mapping[str, Any], *, region: str) -> Environ:
    """Return a request to DynamoDB, as a client sends it."""
    request = _request("dynamodb", json.dumps(content).encode(), "application/x-amz-json-1.0", region=region)
    return {**request, "HTTP_X_AMZ_TARGET": f"DynamoDB_20120810.{operation}"}


def _request(service: str, body: bytes, kind: str, *, region: str) -> Environ:
    return {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": f"{service}.{region}.amazonaws.com",
        "HTTP_AUTHORIZATION": authorization("local", region=region, service=service),
        "CONTENT_TYPE": kind,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": BytesIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }


class Refused(Exception):
    """AWS refused a request; ``code`` is its name for the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def ask(application: Application, operation: str, content: Mapping[str, Any], *, region: str) -> dict[str, Any]:
    """Return the answer of DynamoDB behind ``application``. Raises ``Refused``."""
    status, _, body = call(application, dynamodb_request(operation, content, region=region))
    told: dict[str, Any] = json.loads(body)
    if status != 200:
        raise Refused(str(told.get("__type", status)).rpartition("#")[2], str(told.get("message", told.get("Message"))))
    return told


def query(application: Application, service: str, action: str, content: Mapping[str, str], *, region: str) -> Element:
    """Return the answer of a service with XML behind ``application``. Raises ``Refused``."""
    form = urlencode({"Action": action, **content}).encode()
    status, _, body = call(application, _request(service, form, "application/x-www-form-urlencoded", region=region))
    told = ElementTree.fromstring(body)
    if status != 200:
        raise Refused(told.findtext(".//{*}Code", str(status)), told.findtext(".//{*}Message", ""))
    return told
