"""The credentials of a process. Botocore finds and renews them, in a separate thread; this module says when, and tells
the callers.

Credentials without an expiry, such as those of a file, are read anew when the store refuses them: the file may have
been replaced. So are others, because keys can be revoked before they expire.

Callers take no lock: a signal handler that interrupts one leaves nothing behind that others wait for. A refresh begins
when its thread claims it, and ends in the order: new credentials, no claim, answers. A caller joins in the order: its
future, then a look at the claim. So a refresh that is claimed answers the future, and without a claim one begins.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from ....operations.errors import Denied, StoreError, Unreachable
from ....runtime import forks
from ....runtime.jitter import jittered
from ....runtime.named_tuple import NamedTuple
from ..faults import unsent
from ..protocol.requests import Credentials

log = logging.getLogger(__name__)

THREAD_NAME: Final = "zae-limiter-credentials"
EARLY: Final = 900.0  # seconds before the expiry: botocore renews nothing that lives longer
MARGIN: Final = 5.0  # seconds before the expiry: a request takes a while
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between a failure and the next attempt in the background
QUIET: Final = 60.0  # seconds between two warnings

Answer = Credentials | StoreError


def too_late(seconds: float) -> Unreachable:
    """Return the error for credentials that do not come in time."""
    why = f"the credentials did not come within {round(seconds, 1):g} s"
    return Unreachable(
        f"cannot create a client: {why}: check their provider, such as credential_process, SSO or a role"
    )


class Held(NamedTuple):
    """Credentials, with instants of the epoch: to renew them from ``due`` on, to use them until ``until``."""

    credentials: Credentials
    due: float
    until: float
    expiry: float


class CredentialSource:
    """The credentials of a process, renewed before they expire. Threads and event loops may share it.

    ``session`` is a botocore session. ``now`` returns the seconds of the epoch.
    """

    def __init__(self, session: Any, *, now: Callable[[], float] = time.time) -> None:
        self._session = session
        self._now = now
        self._found: Any = None  # botocore's credentials, which renew themselves
        self._held: Held | None = None
        self._waiting: deque[Future[Credentials]] = deque()
        self._claims: dict[str, object] = {}  # one at most: of the thread that refreshes
        self._failures = 0
        self._pause_until = self._quiet_until = self._renew_from = -math.inf
        self._renewal_pause = FIRST_PAUSE
        forks.register(self)

    def current(self) -> Credentials | None:
        """Return credentials that have not expired, without any I/O; ``None`` if the caller has to wait for new ones.

        Start a refresh in the background when it is due, and leave its outcome to later callers.
        """
        held = self._held
        if held is None:
            return None
        now = self._now()
        if now >= held.due and now >= self._pause_until and not self._claims:
            self._pause_until = now + FIRST_PAUSE  # for the callers that come before the thread
            self._renew()
        return held.credentials if now < held.until else None

    @property
    def account(self) -> str | None:
        """The id of the account of the credentials read last, if they have one."""
        return None if self._held is None else self._held.credentials.account

    def refreshed(self) -> Future[Credentials]:
        """Return the outcome of the refresh under way, or else of one that starts now. It cannot be cancelled.

        The future raises ``Denied`` if there are no credentials and never were, ``Unreachable`` if there were, and
        ``NotApplied`` for settings that are wrong.
        """
        future: Future[Credentials] = Future()
        future.set_running_or_notify_cancel()  # a task that is cancelled does not cancel it
        self._waiting.append(future)
        if not self._claims and not self._renew():
            self._refresh()
        return future

    def renewed(self, refused: Credentials) -> Future[Credentials] | None:
        """Return the outcome of reading the credentials anew, because the store refuses those that were used; ``None``
        if they were read too lately. Its result may be the same ones.
        """
        held, now = self._held, self._now()
        if held is not None and held.credentials == refused and not self._claims and not self._waiting:
            if now < self._renew_from:
                return None
            self._renew_from = now + self._renewal_pause
            self._renewal_pause = min(2 * self._renewal_pause, LONGEST_PAUSE)
            self._found = None  # botocore reads nothing that has no expiry a second time
        elif held is not None and held.credentials != refused:  # others have read them since
            future: Future[Credentials] = Future()
            future.set_result(held.credentials)
            return future
        return self.refreshed()

    def forget(self) -> None:
        """Reset after a fork: no refresh is under way in the child. The credentials stay."""
        self._found = None  # its lock may be held by a thread of the parent
        self._waiting = deque()
        self._claims = {}
        self._pause_until = -math.inf

    # one refresh

    def _renew(self) -> bool:
        """Start a thread that refreshes; return whether there is one."""
        try:
            threading.Thread(target=self._refresh, daemon=True, name=THREAD_NAME).start()
        except RuntimeError:  # the interpreter ends, or has no more threads
            return False
        return True

    def _refresh(self) -> None:
        """Refresh, unless another thread does, and answer the waiting callers."""
        claims, claim = self._claims, object()
        if claims.setdefault("refresh", claim) is not claim:
            return
        answer: Answer = Unreachable("the refresh of the credentials was cut off")
        try:
            answer = self._ask()
        finally:
            claims.clear()
            self._tell(answer)

    def _ask(self) -> Answer:
        try:
            held = self._fetch()
        except Exception as error:  # noqa: BLE001 - a provider may raise anything: waiting callers get it
            return self._failed(error)
        newer = self._held is None or held.expiry != self._held.expiry
        self._pause_until = -math.inf if newer else self._now() + FIRST_PAUSE  # the provider has no newer ones yet
        self._failures = 0
        if self._held is not None and held.credentials != self._held.credentials:
            self._renewal_pause = FIRST_PAUSE
        self._held = held
        return held.credentials

    def _fetch(self) -> Held:
        from botocore.exceptions import NoCredentialsError

        with forks.without_forks():  # the providers make TLS contexts
            provider = self._session.get_component("credential_provider")
        found = self._found or provider.load_credentials()
        if found is None:
            raise NoCredentialsError
        self._found = found
        frozen = found.get_frozen_credentials()  # I/O, if fewer than 15 minutes are left
        expiry = getattr(found, "_expiry_time", None)
        account = getattr(frozen, "account_id", None) or None  # which older versions of botocore do not know
        credentials = Credentials(frozen.access_key, frozen.secret_key, frozen.token or None, account)
        return hold(credentials, math.inf if expiry is None else expiry.timestamp(), self._now())

    def _failed(self, error: Exception) -> StoreError:
        self._pause_until = self._now() + jittered(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._failures))
        self._failures = min(self._failures + 1, 10)
        held, now, known = self._held, self._now(), unsent(error)
        text = str(known) if known is not None else f"no credentials: {type(error).__name__}: {error}"
        fault = Unreachable(text) if held is not None else known or Denied(text)
        fault.__cause__ = error
        if held is not None and now >= self._quiet_until:  # else a caller waits, and raises it
            self._quiet_until = now + QUIET
            left = max(0.0, held.expiry - now)
            log.warning("the credentials were not renewed, those at hand expire in %.0f s: %s", left, fault)
        return fault

    def _tell(self, answer: Answer) -> None:
        waiting = self._waiting
        while True:
            try:
                future = waiting.popleft()
            except IndexError:  # there are no more, or another thread answers them
                return
            if isinstance(answer, StoreError):
                copy = type(answer)(str(answer))  # for one caller alone, which adds its traceback
                copy.__cause__ = answer.__cause__
                future.set_exception(copy)
            else:
                future.set_result(answer)


def hold(credentials: Credentials, expiry: float, now: float) -> Held:
    """Return what to hold from ``now`` on, in seconds of the epoch. Raises ``ValueError`` if it is of no use."""
    life = expiry - now
    if life <= 0:
        raise ValueError("the provider returned credentials that have expired")
    for part in (credentials.access_key, credentials.token or ""):
        if not (part.isascii() and part.isprintable()):
            raise ValueError("the access key or the session token has a character that no HTTP header may have")
    return Held(credentials, expiry - min(EARLY, life / 2), expiry - min(MARGIN, life / 10), expiry)
