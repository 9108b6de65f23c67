"""One apply at a time: waiting for the lock of another, and freeing one by hand.

Lives here: who may go on. Never: what an apply writes; it takes the lock with its first write of the state.
"""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from zae_limiter import ProvisionerLock, ProvisionerState, StaleStateError, SyncRepository

from .asking import Asking
from .deadline import Deadline
from .planning import iso_time
from .refusals import Refused

POLL_SECONDS: Final = 1.0


def new_lock(asking: Asking, deadline: Deadline) -> ProvisionerLock:
    """A lock that holds until this invocation is certainly over."""
    return ProvisionerLock(secrets.token_hex(8), _holder(asking), deadline.lock_expires_ms)


def wait_for_lock(
    repository: SyncRepository, asking: Asking, deadline: Deadline, sleep: Callable[[float], None]
) -> ProvisionerState:
    """The state, free of a lock that still holds. Raises ``Refused`` that says who holds it."""
    until = min(deadline.monotonic() + asking.lock_timeout, deadline.stop)
    while True:
        state = repository.get_provisioner_state()
        lock = state.lock
        if lock is None or lock.expires_at_ms <= deadline.now_ms():
            return state
        if deadline.monotonic() >= until:
            raise Refused("locked", _told(lock, repository))
        sleep(POLL_SECONDS)


def unlock(repository: SyncRepository, lock_id: str) -> ProvisionerState:
    """The state without the lock of that id. Raises ``Refused`` where it is not there."""
    state = repository.get_provisioner_state()
    if state.lock is None:
        raise Refused("not_locked", "nobody holds the lock")
    if state.lock.lock_id != lock_id:
        raise Refused("other_lock", f"the lock is not {lock_id}: {_told(state.lock, repository)}")
    try:
        return repository.put_provisioner_state(replace(state, lock=None), expected_serial=state.serial)
    except StaleStateError as error:
        raise Refused("stale", f"the lock has changed hands meanwhile: {error}") from error


def _holder(asking: Asking) -> str:
    return asking.owner if asking.principal is None else f"{asking.owner} ({asking.principal})"


def _told(lock: ProvisionerLock, repository: SyncRepository) -> str:
    where = f"--name {repository.namespace_state.stack} --namespace {repository.name}"
    return (
        f"{lock.owner} is applying, until {iso_time(lock.expires_at_ms)} at most; wait (--lock-timeout), or if it is "
        f"gone, free the lock: zae-limiter limits unlock {where} {lock.lock_id}"
    )
