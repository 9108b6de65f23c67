"""What the provisioner keeps of its applies, as values: how far the one under way is, and what each one did."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..exceptions import ValidationError
from .whole import check_flag, check_whole


@dataclass(frozen=True, slots=True)
class ApplyProgress:
    """How far an apply is: ``done`` of ``total`` changes, from ``began_at_ms`` until ``at_ms`` (epoch milliseconds)."""

    done: int
    total: int
    began_at_ms: int
    at_ms: int

    def __post_init__(self) -> None:
        for name in ("done", "total", "began_at_ms", "at_ms"):
            check_whole(name, getattr(self, name), at_least=0)


@dataclass(frozen=True, slots=True)
class ApplyRecord:
    """One apply: who, from where, when (ISO time), which manifest, what it did. Raises ``ValidationError``.

    ``serial`` is that of the state that the apply leaves. ``ended`` is false while it is under way, and stays so if it
    was killed. ``created``, ``updated`` and ``deleted`` count the changes made, ``failed`` and ``left`` the others.
    ``targets`` are the patterns of the addresses that it was for, none for all.
    """

    serial: int
    at: str
    owner: str
    manifest_hash: str
    principal: str | None = None
    source: str | None = None
    created: int = 0
    updated: int = 0
    deleted: int = 0
    failed: int = 0
    left: int = 0
    targets: Sequence[str] = ()
    ended: bool = False

    def __post_init__(self) -> None:
        for name in ("serial", "created", "updated", "deleted", "failed", "left"):
            check_whole(name, getattr(self, name), at_least=0)
        for name in ("at", "owner", "manifest_hash", "principal", "source"):
            value = getattr(self, name)
            if value is None and name in {"principal", "source"}:
                continue
            if not isinstance(value, str) or not value:
                raise ValidationError(name, value, "must be a text that is not empty")
        if isinstance(self.targets, str) or not all(isinstance(each, str) for each in self.targets):
            raise ValidationError("targets", self.targets, "must be a list of patterns")
        object.__setattr__(self, "targets", tuple(self.targets))
        check_flag("ended", self.ended)
