"""Overrides of an entity's limits: how long, where they are, and which of them block."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import CommandError
from ..options import Function
from ..times import parse_end
from .places import ALL_RESOURCES

if TYPE_CHECKING:
    from zae_limiter import Limit, OnRefused, Override, SyncRepository
    from zae_limiter.values.provisioner import ConfigPlace, StoredConfig


class End(NamedTuple):
    """An end as it was typed, with its option."""

    option: str
    text: str

    def of(self, repository: "SyncRepository") -> datetime:
        """Return the instant, by the store's time. Raises ``CommandError``."""
        now = datetime.fromtimestamp(repository.namespace_state.now() / 1000, UTC)
        return parse_end(self.option, self.text, now)


def end_options(default: str | None = None) -> Callable[[Function], Function]:
    """Add ``--for`` and ``--until``; the command gets ``end``, an `End` or ``None``."""

    def add(function: Function) -> Function:
        @wraps(function)
        def command(*, for_: str | None, until: str | None, **kwargs: Any) -> Any:
            if for_ is not None and until is not None:
                raise CommandError("--for and --until contradict each other: pass one of them")
            given = End("--for", for_) if for_ is not None else End("--until", until) if until is not None else None
            return function(end=given, **kwargs)

        shown = f"  [default: {default}]" if default else ""
        until = click.option(
            "--until", metavar="TIME", help="Until when: 06:00, 'tomorrow 6:00 Europe/Berlin', 2026-01-31T18:00Z."
        )
        return click.option("--for", "for_", metavar="TIME", help=f"How long: 30m, 2h, 7d.{shown}")(until(command))  # type: ignore[return-value]  # click hands it the rest

    return add


def set_override(
    repository: "SyncRepository",
    entity_id: str,
    place: str,
    limits: "Sequence[Limit]",
    *,
    end: End,
    principal: str,
    on_refused: "OnRefused | None" = None,
    extends: bool = False,
) -> tuple[datetime, int]:
    """Set an override; return its end, and the number of live buckets. Raises ``CommandError`` for a wrong end."""
    from zae_limiter import ValidationError

    until = end.of(repository)
    try:
        return until, repository.set_limits(
            entity_id,
            limits,
            place,
            extends=extends,
            override_until=until,
            on_refused=on_refused,
            principal=principal,
        )
    except ValidationError as error:
        if error.field != "override_until":
            raise
        raise CommandError(f"{end.option} {end.text!r}: {error.problem}") from error


def own_configs(
    repository: "SyncRepository", entity_id: str, resources: Iterable[str] | None = None
) -> "dict[str, StoredConfig]":
    """Return what an entity has of its own by resource, switches without limits, too: on these, or on all that it has
    any on; last ``_default_``, as a change of what holds on all of them invalidates every bucket.
    """
    from zae_limiter.maintenance import SyncMaintenance

    maintenance = SyncMaintenance(repository)
    own = maintenance.list_own_resources(entity_id) if resources is None else resources
    places: list[ConfigPlace] = [(entity_id, each) for each in own]
    found = maintenance.get_configs(places)
    return {place[1]: found[place] for place in places if place in found and place[1] is not None}


def known_resources(repository: "SyncRepository", entity_id: str) -> list[str]:
    """Return the resources that an entity uses, or that have defaults, and last ``_default_``. A pattern is none: what
    it says holds on the resources that it matches.
    """
    from zae_limiter.values.patterns import is_pattern

    names = {each for each in repository.list_resources_with_defaults() if not is_pattern(each)}
    names |= {each.resource for each in repository.get_buckets(entity_id)}
    return [*sorted(names), ALL_RESOURCES]


def blocks(override: "Override | None") -> bool:
    """Return whether an override is a block: none of its limits admits anything."""
    return override is not None and all(limit.blocks and not limit.shadow for limit in override.limits)


def places_in_words(places: Iterable[str]) -> str:
    """Return the resources of a change for people."""
    found = [*places]
    return "all resources" if ALL_RESOURCES in found else ", ".join(found)
