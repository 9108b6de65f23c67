"""Ask STS for the identity of the caller: the default author of changes.

A change asks once in the life of a store, before its first write, and an acquire never does. An answer that does not
come within ``SECONDS`` is none: a network without a route to STS must not block changes of limits. STS is not
asked where DynamoDB is not that of AWS, nor where the credentials of the profile may prompt a person again.
"""

import logging
from collections.abc import Callable
from threading import Thread
from typing import Final

from ....operations.errors import StoreError
from ....runtime.forks import without_forks
from ..options import ClientOptions
from .endpoint import configured_endpoint, open_session

log = logging.getLogger(__name__)

SECONDS: Final = 3.0
ASK_PERSONS: Final = ("mfa_serial", "credential_process")  # settings of a profile
LONGEST: Final = 256  # of a principal


class CallerIdentity:
    """The ARN of the caller of AWS, ``None`` where there is none. Threads may ask at the same time."""

    def __init__(self, options: ClientOptions, *, ask: Callable[[ClientOptions], str | None] | None = None) -> None:
        self._options = options
        self._ask = ask or caller_arn
        self._known: tuple[str | None] | None = None

    def arn(self) -> str | None:
        """Return the ARN; wait for it at most ``SECONDS``, the first time."""
        if self._known is None:
            answers: list[str | None] = []
            asking = Thread(target=lambda: answers.append(self._ask(self._options)), name="zael-identity", daemon=True)
            asking.start()
            asking.join(SECONDS)
            self._known = (answers[0] if answers else None,)
        return self._known[0]


def caller_arn(options: ClientOptions) -> str | None:
    """Return the ARN that STS has for the credentials of the options; ``None`` if it cannot be known."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        with without_forks():
            session = open_session(options)
            asks = options.credentials is None and any(map(session.get_scoped_config().get, ASK_PERSONS))
            if configured_endpoint(session, options)[1] or asks:
                return None  # STS must not be asked
            config = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})
            client = session.create_client("sts", config=config)
        return str(client.get_caller_identity()["Arn"])[:LONGEST]
    except (BotoCoreError, ClientError, ResponseParserError, StoreError, OSError, ValueError, KeyError) as error:
        log.info("changes have no author, because STS did not identify the caller: %s", type(error).__name__)
        return None
