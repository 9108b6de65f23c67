"""The Lambda's report of a namespace's state: the managed items, the owner, the lock."""

from collections.abc import Mapping
from typing import Any, Self

from attrs import asdict, field, frozen
from attrs.validators import instance_of, optional

from .addresses import ManagedSet
from .formats import reading

_TEXT = instance_of(str)


@frozen
class LockReport:
    """The lock of an apply under way: the id that frees it, its owner, and its latest end (ISO time)."""

    lock_id: str = field(validator=_TEXT)
    owner: str = field(validator=_TEXT)
    expires_at: str = field(validator=_TEXT)


@frozen
class ApplyUnderWay:
    """An apply that holds the lock while something else is read: its owner, its latest end and, from its first
    checkpoint on, its begin (ISO times).
    """

    owner: str = field(validator=_TEXT)
    expires_at: str = field(validator=_TEXT)
    began_at: str | None = field(default=None, validator=optional(_TEXT))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the apply in plain values; other keys are ignored. Raises `KeyError` or `TypeError`."""
        return cls(raw["owner"], raw["expires_at"], raw.get("began_at"))


@frozen
class ProgressReport:
    """How far an apply is: `done` of `total` changes, `seconds` after it began, and who has asked it to stop."""

    done: int = field(validator=instance_of(int))
    total: int = field(validator=instance_of(int))
    seconds: float = field(validator=instance_of((int, float)))

    @property
    def rate(self) -> float:
        """Changes per second so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the rest takes at this rate; None without one."""
        return (self.total - self.done) / self.rate if self.rate else None


@frozen
class StateReport:
    """The result of the last apply: managed items, owner, time, manifest hash; and the lock, if there is one.

    `progress` and `stop`, who has asked for it, are of the apply that holds the lock. `share` is the region's share of
    each limit, None for the whole.
    """

    managed: ManagedSet = field(validator=instance_of(ManagedSet))
    serial: int = field(validator=instance_of(int))
    owner: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))
    last_applied: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))
    applied_hash: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))
    lock: LockReport | None = field(default=None, kw_only=True, validator=optional(instance_of(LockReport)))
    progress: ProgressReport | None = field(default=None, kw_only=True, validator=optional(instance_of(ProgressReport)))
    stop: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))
    share: str | None = field(default=None, kw_only=True, validator=optional(_TEXT))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal report."""
        lock = self.lock
        return {
            "serial": self.serial,
            "owner": self.owner,
            "last_applied": self.last_applied,
            "applied_hash": self.applied_hash,
            "lock": lock and {"id": lock.lock_id, "owner": lock.owner, "expires_at": lock.expires_at},
            **({"progress": asdict(self.progress)} if self.progress else {}),
            **({"stop": self.stop} if self.stop else {}),
            **({"share": self.share} if self.share else {}),
            "managed": {
                "system": self.managed.system,
                "resources": sorted(self.managed.resources),
                "entities": {entity: sorted(own) for entity, own in self.managed.entities.items()},
                **({"records": sorted(self.managed.records)} if self.managed.records else {}),
            },
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the report in the plain values of `to_dict`; raises `FormatError`."""
        with reading("state"):
            lock, progress = raw["lock"], raw.get("progress")
            return cls(
                ManagedSet(**raw["managed"]),
                raw["serial"],
                owner=raw["owner"],
                last_applied=raw["last_applied"],
                applied_hash=raw["applied_hash"],
                lock=None if lock is None else LockReport(lock["id"], lock["owner"], lock["expires_at"]),
                progress=None if progress is None else ProgressReport(**progress),
                stop=raw.get("stop"),
                share=raw.get("share"),
            )
