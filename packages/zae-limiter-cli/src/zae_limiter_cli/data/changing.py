"""What a `set-*` command changes at a place: old and new values, the limits that go, the manifest that manages it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..confirmation import confirm
from ..options import OutputForm
from .bare_money import warn_of_bare_money

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository
    from zae_limiter.values.provisioner import ConfigPlace, StoredConfig

NONE = "none"
MARK = ":"  # behind the name of what is not a limit, which no limit's name has


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a place; ``before`` has the texts of its values by name.

    ``of_override``: the limits are those of an override.
    """

    repository: "SyncRepository"
    place: "ConfigPlace"
    before: Mapping[str, str]
    of_override: bool = False

    def changed(self) -> dict[str, tuple[str, str]]:
        """Return the old and the new text of each value that is another one now; nothing for a place that is new."""
        from zae_limiter.maintenance import SyncMaintenance

        if not self.before:
            return {}
        config = SyncMaintenance(self.repository).get_configs([self.place]).get(self.place)
        after = _texts(config, of_override=self.of_override)
        names = sorted({*self.before, *after})
        pairs = {name: (self.before.get(name, NONE), after.get(name, NONE)) for name in names}
        return {name: (old, new) for name, (old, new) in pairs.items() if old != new}

    def say(self, output: OutputForm) -> None:
        """Print what has changed, for people; a JSON document has it as ``plain``."""
        if output == "table" and (changed := self.changed()):
            click.echo(f"Changed: {', '.join(_pairs(changed))}.")

    def plain(self) -> dict[str, Any]:
        """Return what has changed, for a JSON document; nothing for a place that is new, or as it was."""
        pairs = self.changed().items()
        changed = {name.removesuffix(MARK): {"from": old, "to": new} for name, (old, new) in pairs}
        return {"changed": changed} if changed else {}


def before_change(
    repository: "SyncRepository",
    place: "ConfigPlace",
    limits: "Collection[Limit]",
    *,
    what: str,
    yes: bool,
    of_override: bool = False,
    unlimited: bool = False,
) -> Change:
    """Return the change that is about to be made. Ask, unless ``yes``, if a limit of the place goes with it; say, on
    standard error, if a manifest manages the place. Raises as ``confirm`` does.
    """
    from zae_limiter.maintenance import SyncMaintenance

    config = SyncMaintenance(repository).get_configs([place]).get(place)
    before = _texts(config, of_override=of_override)
    new = {limit.name: limit.text for limit in limits}
    warn_of_bare_money(limits)
    if config is not None and config.fingerprint is not None and not of_override:
        restores = "its next `limits apply` restores what the file says, so change the file, too"
        click.echo(f"A manifest manages the {what}: {restores}.", err=True)
    gone = [name for name in _limits_of(before) if name not in new] if new or unlimited else []
    if gone and not yes:
        pairs = {name: (before.get(name, NONE), new.get(name, NONE)) for name in sorted({*_limits_of(before), *new})}
        told = ", ".join(_pairs({name: each for name, each in pairs.items() if each[0] != each[1]}))
        go = f"{', '.join(gone)} would go" if len(gone) > 1 else f"{gone[0]} would go"
        confirm(f"Replace the {what} in namespace {repository.name}? {go}: {told}.")
    return Change(repository, place, before, of_override)


def _texts(config: "StoredConfig | None", *, of_override: bool) -> dict[str, str]:
    """Return limits, or those of the override, and the policies of a place, as texts by name."""
    if config is None:
        return {}
    if of_override:
        return {} if config.override is None else {limit.name: limit.text for limit in config.override.limits}
    policies = {"mode": config.mode, "on_unavailable": config.on_unavailable, "on_refused": config.on_refused}
    found = {limit.name: limit.text for limit in config.limits}
    return found | {f"{name}{MARK}": str(value) for name, value in policies.items() if value is not None}


def _limits_of(texts: Mapping[str, str]) -> list[str]:
    return [name for name in texts if not name.endswith(MARK)]


def _pairs(changed: Mapping[str, tuple[str, str]]) -> list[str]:
    return [f"{name} {old} -> {new}" for name, (old, new) in changed.items()]
