"""Save a plan in a file: the plan, its stack, and the state that it applies to."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from attrs import evolve

from zae_limiter_manifest import FormatError, LimitsManifest, ManifestError, Plan
from zae_limiter_manifest.packing import check_values

from ..errors import CommandError
from ..inputs import read_head
from ..results import write_file

SCHEMA_VERSION: Final = 1
KIND: Final = "saved-plan"
MAX_BYTES: Final = 64_000_000
"""The largest file of a plan; one that creates 50,000 entities takes 28 MB."""

MOST_VALUES: Final = 4_000_000
"""The most keys and values of a plan; one that creates 50,000 entities with two limits each has 2.5 million."""

_LONGEST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The manifest that was planned, and the plan; ``stack`` is the name of its stack, or the URL of its file.

    ``targets`` are the patterns of the addresses that were planned, none for all.
    """

    stack: str
    manifest: LimitsManifest
    plan: Plan
    targets: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write the plan to a file."""
        told = {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "stack": self.stack,
            "changes_hash": self.plan.changes_hash(),
            "manifest": self.manifest.to_dict(),
            "plan": evolve(self.plan, under_way=None).to_dict(),  # that apply will be over
            **({"targets": list(self.targets)} if self.targets else {}),
        }
        write_file(path, json.dumps(told, indent=1) + "\n", mode=0o600)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the plan in a file. Raises ``CommandError`` for a file that is not a plan, or was changed."""
        try:
            return cls._of(json.loads(_read(path)))
        except RecursionError as error:
            raise _no_plan(path, "it is nested too deep") from error
        except (ValueError, KeyError, TypeError, FormatError, ManifestError) as error:
            raise _no_plan(path, str(error)) from error

    @classmethod
    def _of(cls, told: Any) -> Self:
        if (told["kind"], told["schema_version"]) != (KIND, SCHEMA_VERSION):
            raise ValueError(f"it is {told['kind']} {told['schema_version']}")
        if not (isinstance(told["stack"], str) and told["stack"].isprintable()):
            raise ValueError("its stack is not a name")
        targets = told.get("targets", [])
        if not (isinstance(targets, list) and all(isinstance(each, str) for each in targets)):
            raise TypeError("its targets are not a list of patterns")
        manifest, plan = LimitsManifest.from_dict(told["manifest"], "manifest"), Plan.from_dict(told["plan"])
        saved = cls(told["stack"], manifest, plan, tuple(targets))
        if saved.plan.changes_hash() != told["changes_hash"]:
            raise ValueError("it has changed since")
        return saved


def _read(path: Path) -> str:
    content = read_head(path, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES // 1_000_000} MB")
    check_values(content, MOST_VALUES)
    return content.decode("utf-8")


def _no_plan(path: Path, why: str) -> CommandError:
    reason = why if len(why) <= _LONGEST_REASON else why[:_LONGEST_REASON] + "…"
    message = f"{path}: not a plan saved by `limits plan --out` ({reason}); pass a manifest with -f"
    return CommandError(" ".join(message.split()))
