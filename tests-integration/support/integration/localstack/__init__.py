"""LocalStack for the tests: one that runs already, else a container, else a process of this session."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ..fetch import Unavailable
from .container import in_container
from .health import wait_until_healthy
from .host import as_process

URL_VARIABLE = "ZAEL_LOCALSTACK_URL"


@contextmanager
def localstack() -> Iterator[str]:
    """The URL of a LocalStack that is healthy; ``Unavailable`` says why there is none."""
    if running := os.environ.get(URL_VARIABLE):
        wait_until_healthy(running)
        yield running
        return
    with ExitStack() as stack:
        try:
            url = stack.enter_context(in_container())
        except Unavailable as no_container:
            try:
                url = stack.enter_context(as_process())
            except Unavailable as no_process:
                raise Unavailable(f"{no_container}; {no_process}") from no_process
        yield url
