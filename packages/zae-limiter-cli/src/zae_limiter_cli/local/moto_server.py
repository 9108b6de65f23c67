"""moto's server: its application, and the functions in its backend."""

import logging
import warnings
from typing import Any, cast

import moto.cloudformation.models  # noqa: F401  takes seconds, and the first request of `deploy` has only a few
from moto.backends import get_backend
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import ThreadedWSGIServer

from .crowd import Crowd
from .door import Door
from .gate import Gate
from .lambdas.function import Function
from .wsgi import Answer, Application


class MotoServer(Crowd, ThreadedWSGIServer):
    """moto's server, whose connections have a bound."""


class RequestHandler(Door, MotoRequestHandler):
    """The handler of moto's server, behind a gate, silent, without a delay for small answers."""

    disable_nagle_algorithm = True

    def refusal(self) -> Answer | None:
        """Return the gate's answer to a request that is refused; ``None`` to let it in."""
        try:
            environ = self.make_environ()
        except ValueError as error:
            return 400, [("Content-Type", "text/plain")], f"{error}\n".encode()
        return cast("Gate", self.server.app).refusal(environ)

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  the server's name for it
        """Log nothing: requests are not news."""


def application() -> Application:
    """Return moto's AWS. docs/local.md lists what its CloudFormation leaves out, so its warnings are off."""
    warnings.filterwarnings("ignore", module=r"moto\.cloudformation")
    logging.getLogger("moto").setLevel(logging.ERROR)
    made: Application = DomainDispatcherApplication(create_backend_app)
    return made


def function_of(name: str, *, region: str, qualifier: str | None) -> tuple[Function, bytes] | None:
    """Return a function by name or ARN, and its zip; ``None`` if there is none."""
    from moto.awslambda.exceptions import UnknownFunctionException

    backend = get_backend("lambda")[DEFAULT_ACCOUNT_ID][region]
    try:
        found = backend.get_function(name, qualifier)
    except UnknownFunctionException:
        return None
    function = Function.from_configuration(found.get_configuration(), concurrency=found.reserved_concurrency)
    return function, found.code_bytes
