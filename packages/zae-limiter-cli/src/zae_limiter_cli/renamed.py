"""Old spellings of commands and options, and what to type instead. Deleted with 1.0."""

from collections.abc import Mapping, Sequence
from typing import Final

COMMANDS: Final[Mapping[str, str]] = {
    "check": "status",
    "version": "--version",
    "usage summary": "usage list --total",
    "system get-defaults": "system show",
    "resource get-defaults": "resource show NAME",
    "resource list": "resource show",
    "tier list": "tier show",
    "entity get-limits": "entity show ID",
    "entity effective": "entity show ID --resource NAME",
    "entity list-resources": "resource show",
    "entity move": "entity update ID --parent ID",
    "entity children": "entity tree ID --depth 1",
    "entity ancestors": "entity tree ID --above",
    "bucket list": "entity list --buckets",
    "bucket show": "entity show ID",
    "entity delete-override": "lift ID --end",
    "block": "disable ID",
    "unblock": "enable ID",
    "switch set": "switch ID --bypass` or `zae-limiter disable ID",
    "switch show": "switch ID",
    "bucket tell": "bucket invalidate",
    "plan": "limits plan",
    "plan set-limits": "tier set-limits",
    "plan delete-limits": "tier delete-limits",
    "plan show": "tier show",
    "plan list": "tier show",
    "namespace show": "namespace list NAME",
    "namespace orphans": "namespace list --deleted",
    "delegation policy": "delegation list --policy NAMESPACE",
    "limits init": "limits export --out FILE",
    "limits state": "limits status",
    "limits history": "limits status",
    "limits show": "limits status SERIAL --manifest",
    "limits watch": "limits status --follow",
}

OPTIONS: Final[Mapping[tuple[str, str], str]] = {
    ("audit list", "--plan"): "--tier",
    ("deploy", "--plan"): "--dry-run",
    ("entity create", "--plan"): "--tier",
    ("entity update", "--plan"): "--tier",
    ("entity update", "--no-plan"): "--no-tier",
    ("entity update", "--expected-version"): "--expect-version",
    ("lambda-export", "--file"): "--out",
    ("lambda-export", "-f"): "--out",
    ("limits shares", "--hours"): "--since",
    ("why", "--also"): "--draw",
    ("usage near", "--seconds"): "--every",
}


def renamed_option(path: Sequence[str], option: str) -> str | None:
    """Return the old option and the new one, if ``option`` is an old one of the command at ``path``."""
    new = OPTIONS.get((" ".join(path), option))
    return new and f"No such option {option!r}; use `{new}`."


def renamed_command(path: Sequence[str], words: Sequence[str]) -> str | None:
    """Return the old command and the new one, if the words behind the groups of ``path`` begin with an old one."""
    typed = [*path, *words]
    for size in range(len(typed), len(path), -1):
        if (old := " ".join(typed[:size])) in COMMANDS:
            return f"No such command {old!r}; use `zae-limiter {COMMANDS[old]}`."
    return None
