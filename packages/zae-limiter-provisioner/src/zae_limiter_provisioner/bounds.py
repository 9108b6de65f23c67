"""The bounds of a delegation: kept in the registry of the table, and held against what comes by the namespace's alias.

Who invokes the function by its name alone is the platform: it sets the bounds, and is not bound by them.
"""

import json
from typing import Final

from zae_limiter.maintenance import bounds_of, set_bounds
from zae_limiter_manifest import Answer, Bounds, Failure, LimitsManifest, ManifestError, Request, bounds_failures
from zae_limiter_manifest.delegation import namespace_of

from .delegated import alias_in
from .planning import answer_export
from .refusals import Refused
from .table import Table

LATEST: Final = "$LATEST"


class Beyond(Refused):
    """A manifest is beyond the bounds of its namespace, at these places."""

    def __init__(self, places: tuple[Failure, ...]) -> None:
        super().__init__("beyond_bounds", "; ".join(f"{each.path} {each.message}" for each in places))
        self._places = places

    @property
    def failures(self) -> tuple[Failure, ...]:
        """One for each place."""
        return self._places


def find_bounds(table: Table, namespace: str) -> Bounds | None:
    """Return the bounds of a namespace, which need not be registered. Raises ``Refused`` if they cannot be read."""
    content = table.run(bounds_of(namespace))
    try:
        return None if content is None else Bounds.from_dict(json.loads(content))
    except (ValueError, ManifestError) as error:
        way_out = "set them again, or bring this function to the release that has set them"
        raise Refused("unreadable_bounds", f"the bounds of {namespace} cannot be read: {error}: {way_out}") from error


def check_bounds(table: Table, manifest: LimitsManifest, alias: str | None) -> None:
    """Raise ``Beyond`` if the alias serves one namespace alone, and the manifest is beyond the bounds of it."""
    if alias is None or namespace_of(alias) is None:
        return
    bounds = find_bounds(table, manifest.namespace)
    if bounds is not None and (failures := bounds_failures(manifest, bounds)):
        raise Beyond(failures)


def find_beyond_bounds(table: Table, manifest: LimitsManifest, alias: str | None) -> tuple[Failure, ...]:
    """Return what is beyond the bounds in a manifest of the platform, which may be so. Raises ``Beyond`` for one of a
    team.
    """
    if alias not in (None, LATEST):
        check_bounds(table, manifest, alias)
        return ()
    bounds = find_bounds(table, manifest.namespace)
    return () if bounds is None else bounds_failures(manifest, bounds)


def answer_bounds(table: Table, namespace: str) -> Answer:
    """Return the bounds of a namespace, if it has any."""
    return Answer("planned", namespace=namespace, bounds=find_bounds(table, namespace))


def change_bounds(table: Table, request: Request, context: object) -> Answer:
    """Set or remove the bounds of a namespace, and return what of its live limits is beyond them. Raises ``Refused`` if
    the function was invoked by an alias: none may change what it is bound by.
    """
    alias = alias_in(context)
    if alias not in (None, LATEST):
        way_out = "invoke the function by its name alone"
        raise Refused("not_delegated", f"the alias {alias} may not change the bounds of a delegation: {way_out}")
    content = None if request.bounds is None else json.dumps(request.bounds.to_dict())
    table.run(set_bounds(request.namespace, content))
    return Answer("applied", namespace=request.namespace, bounds=request.bounds, beyond=_live(table, request))


def _live(table: Table, request: Request) -> tuple[Failure, ...]:
    repository = None if request.bounds is None else table.find(request.namespace)
    manifest = None if repository is None else answer_export(repository).manifest
    return () if request.bounds is None or manifest is None else bounds_failures(manifest, request.bounds)
