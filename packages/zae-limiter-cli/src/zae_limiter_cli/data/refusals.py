"""The option ``--on-refused`` of the commands that set limits, and how a policy is shown."""

from typing import TYPE_CHECKING, Any

import click

from ..columns import say_sentence
from ..errors import CommandError

if TYPE_CHECKING:
    from zae_limiter import OnRefused, SyncRepository
    from zae_limiter.values.provisioner import ConfigPlace


on_refused_option = click.option(
    "--on-refused",
    metavar="STEPS",
    callback=lambda *given: None if given[-1] is None else _parse(given[-1]),
    help="What follows a refusal: wait=2,overflow=credits waits up to 2 s, then takes from the entity's bucket on"
    " that resource; with at=80%,overflow=credits it comes first once 80% of a limit are used; refuse does neither."
    " By default what is stored stays.",
)


def _parse(text: str) -> "OnRefused":
    from zae_limiter import OnRefused, ValidationError

    try:
        return OnRefused.parse("--on-refused", text)
    except ValidationError as error:
        raise CommandError(str(error)) from error


def stored_on_refused(repository: "SyncRepository", place: "ConfigPlace") -> "OnRefused | None":
    """Return what is stored at a place."""
    from zae_limiter.maintenance import SyncMaintenance

    found = SyncMaintenance(repository).get_configs([place]).get(place)
    return None if found is None else found.on_refused


def plain_on_refused(on_refused: "OnRefused | None") -> dict[str, Any]:
    """Return a policy for a JSON document; nothing without one."""
    if on_refused is None:
        return {}
    at = {} if on_refused.at is None else {"at": on_refused.at}
    return {"on_refused": {"wait": on_refused.wait, "overflow": on_refused.overflow, **at}}


def say_on_refused(on_refused: "OnRefused | None", *, by: str | None = None, place: str | None = None) -> None:
    """Print a policy on a line, if there is one; ``by`` is the level that it comes from, where several could be, and
    ``place`` the resource, where several are shown.
    """
    from .places import words_of

    if on_refused is not None:
        on = "" if place is None else f" on {place}"
        say_sentence(f"on_refused{on}: {on_refused}" + ("" if by is None else f", by {words_of(by)}"))
