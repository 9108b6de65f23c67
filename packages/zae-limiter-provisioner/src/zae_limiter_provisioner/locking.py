"""One apply at a time: wait for the lock of another apply, and free a lock by hand.

An apply takes the lock itself, with its first write of the state (apply).
"""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from zae_limiter import SyncRepository
from zae_limiter.exceptions import StaleStateError
from zae_limiter.maintenance import ProvisionerLock, ProvisionerState, SyncMaintenance, request_stop, run

from .apply_options import ApplyOptions
from .deadline import Deadline
from .planning import iso_time
from .refusals import Refused

POLL_SECONDS: Final = 1.0


def new_lock(options: ApplyOptions, deadline: Deadline) -> ProvisionerLock:
    """Return a lock that expires after the certain end of this invocation."""
    return ProvisionerLock(secrets.token_hex(8), _holder(options), deadline.lock_expires_ms)


def wait_for_lock(
    maintenance: SyncMaintenance, options: ApplyOptions, deadline: Deadline, sleep: Callable[[float], None]
) -> ProvisionerState:
    """Wait until no lock holds, and return the state. Raises ``Refused`` with the holder when the time is up."""
    until = min(deadline.monotonic() + options.lock_timeout, deadline.stop)
    while True:
        state = maintenance.get_provisioner_state()
        lock = state.lock
        if lock is None or lock.expires_at_ms <= deadline.now_ms():
            return state
        if deadline.monotonic() >= until:
            raise Refused("locked", _describe_lock(lock, maintenance))
        sleep(POLL_SECONDS)


def unlock(maintenance: SyncMaintenance, lock_id: str) -> ProvisionerState:
    """Remove the lock with this id, and return the state. Raises ``Refused`` if there is no such lock."""
    state = maintenance.get_provisioner_state()
    if state.lock is None:
        raise Refused("not_locked", "no apply holds the lock")
    if state.lock.lock_id != lock_id:
        raise Refused("other_lock", f"the lock is not {lock_id}: {_describe_lock(state.lock, maintenance)}")
    try:
        return maintenance.put_provisioner_state(replace(state, lock=None), expected_serial=state.serial)
    except StaleStateError as error:
        raise Refused("stale", f"the lock has changed hands meanwhile: {error}") from error


def stop(repository: SyncRepository, by: str, *, now_ms: int) -> ProvisionerState:
    """Ask the apply under way to stop at its next checkpoint, and return the state. Raises ``Refused`` if none is
    applying.
    """
    state = SyncMaintenance(repository).get_provisioner_state()
    if state.lock is None:
        raise Refused("not_locked", "no apply is under way")
    if state.lock.expires_at_ms <= now_ms:
        expired = f"the lock of {state.lock.owner} expired at {iso_time(state.lock.expires_at_ms)}"
        raise Refused("not_locked", f"no apply is under way: {expired}, and the next apply makes the rest")
    try:
        run(repository, request_stop(repository.namespace_state, by, expected_serial=state.serial))
    except StaleStateError as error:
        raise Refused("stale", f"the apply has ended meanwhile: {error}") from error
    return replace(state, stop=by)


def _holder(options: ApplyOptions) -> str:
    return options.owner if options.principal is None else f"{options.owner} ({options.principal})"


def _describe_lock(lock: ProvisionerLock, maintenance: SyncMaintenance) -> str:
    place = maintenance.namespace_state
    table = place.stack
    option = "--store" if ":" in table else "--name"  # a URL, or the name of a stack, which has no colon
    where = f"{option} {table} --namespace {place.namespace}"
    return (
        f"{lock.owner} is applying, until {iso_time(lock.expires_at_ms)} at most; wait (--lock-timeout), or if it is "
        f"gone, free the lock: zae-limiter limits unlock {where} {lock.lock_id}"
    )
