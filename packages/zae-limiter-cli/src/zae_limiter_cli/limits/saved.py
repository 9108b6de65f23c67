"""A plan in a file: the plan, its stack, and the state that it applies to."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from zae_limiter_manifest import FormatError, LimitsManifest, ManifestError, Plan

from ..errors import CommandError
from .files import write_file

SCHEMA_VERSION: Final = 1
KIND: Final = "saved-plan"


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The manifest that was planned, and the plan."""

    stack: str
    manifest: LimitsManifest
    plan: Plan

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        told = {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "stack": self.stack,
            "changes_hash": self.plan.changes_hash(),
            "manifest": self.manifest.to_dict(),
            "plan": self.plan.to_dict(),
        }
        write_file(path, json.dumps(told, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The plan in a file. Raises ``CommandError`` for a file that is none, or was changed."""
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            return cls._of(told)
        except (ValueError, KeyError, TypeError, FormatError, ManifestError) as error:
            message = f"{path}: not a plan saved by `limits plan --out` ({error}); pass a manifest with -f"
            raise CommandError(" ".join(message.split())) from error

    @classmethod
    def _of(cls, told: Any) -> Self:
        if (told["kind"], told["schema_version"]) != (KIND, SCHEMA_VERSION):
            raise ValueError(f"it is {told['kind']} {told['schema_version']}")
        saved = cls(told["stack"], LimitsManifest.from_dict(told["manifest"], "manifest"), Plan.from_dict(told["plan"]))
        if saved.plan.changes_hash() != told["changes_hash"]:
            raise ValueError("it has changed since")
        return saved
