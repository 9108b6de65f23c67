"""`zae-limiter bucket reset`, `credit` and `merge`."""

from typing import TYPE_CHECKING

import click

from ...columns import say_json, say_sentence
from ...confirmation import confirm
from ...data.declared import as_declared
from ...data.parsing import refuse_bare_money, tokens_option
from ...data.showing import plain_bucket, say_buckets
from ...errors import CommandError
from ...options import (
    OutputForm,
    output_option,
    yes_accepted,
    yes_option,
)
from ...paging import in_repository
from ...principal import principal_option
from ...rates import amount

if TYPE_CHECKING:
    from decimal import Decimal

    from zae_limiter import SyncRepository
    from zae_limiter.values import Bucket


_key_option = click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Do it once under this key for the bucket, however often it is run within 30 days.",
)
_resource_option = click.option("--resource", "-r", required=True, metavar="NAME", help="The resource.")


@click.command(short_help="Fill a bucket.")
@in_repository
@click.argument("entity_id")
@_resource_option
@_key_option
@principal_option
@yes_option
@output_option
def reset(
    *,
    repository: "SyncRepository",
    entity_id: str,
    resource: str,
    idempotency_key: str | None,
    principal: str,
    yes: bool,
    output: OutputForm,
) -> None:
    """Fill a bucket of ENTITY_ID: its limits get what a new one begins with, in debt or not. Asks first, unless --yes
    is given.

    The parent's bucket does not change: if that one is short, reset it, too. A process that refused a call within the
    last second may refuse for one second more.
    """
    if not yes:
        _find(repository, entity_id, resource)
        confirm(f"Make the bucket of {entity_id} on {resource} full?")
    given = {"principal": principal, "idempotency_key": idempotency_key}
    if not repository.reset_bucket(entity_id, resource, **given):
        raise _no_bucket(repository, entity_id, resource)
    _show_after(repository, entity_id, resource, output)


@click.command(short_help="Add tokens to a bucket.")
@in_repository
@click.argument("entity_id")
@_resource_option
@tokens_option
@_key_option
@principal_option
@output_option
@yes_accepted
def credit(
    *,
    repository: "SyncRepository",
    entity_id: str,
    resource: str,
    tokens: "dict[str, int | Decimal]",
    idempotency_key: str | None,
    principal: str,
    output: OutputForm,
) -> None:
    """Add tokens to a bucket of ENTITY_ID, up to its burst, and show what is left before and after. The parent's bucket
    does not change.

    A quota or a total that has no room for all of it is an error: `lift` gives more than a quota until its window ends.
    """
    before = _find(repository, entity_id, resource)
    limits = {each.limit.name: each.limit for each in before.limits}
    refuse_bare_money(tokens, limits, "--tokens")
    given = {"principal": principal, "idempotency_key": idempotency_key}
    if not repository.credit_bucket(entity_id, resource, tokens, **given):
        raise _no_bucket(repository, entity_id, resource)
    after = as_declared(repository, _find(repository, entity_id, resource))
    left = {name: (before.available[name], after.available[name]) for name in tokens if name in after.available}
    if output == "json":
        pairs = {name: {"before": was, "now": now} for name, (was, now) in left.items()}
        say_json({**plain_bucket(after), "left": pairs})
        return
    for name, (was, now) in left.items():
        say_sentence(f"{name}: {amount(was, limits[name].unit)} left -> {amount(now, limits[name].unit)}.")
    if idempotency_key is not None and all(was == now for was, now in left.values()):
        say_sentence(f"Nothing was added: {idempotency_key} has credited this bucket before, or it was full.")
    say_buckets([after])


@click.command(short_help="Merge the shards of a bucket.")
@in_repository
@click.argument("entity_id")
@_resource_option
@output_option
@yes_accepted
def merge(*, repository: "SyncRepository", entity_id: str, resource: str, output: OutputForm) -> None:
    """Merge the shards of a bucket of ENTITY_ID into one, while calls go on. Its tokens stay what they are.

    The aggregator merges a bucket that was quiet for ten minutes, when its first shard is used next. A bucket that is
    used no more stays split; this command merges it. A bucket that is written too often for it keeps some shards.
    """
    from zae_limiter.maintenance import SyncMaintenance

    _find(repository, entity_id, resource)
    gone = SyncMaintenance(repository).merge_bucket(entity_id, resource)
    if output != "json":
        what = f"{gone} merged with others" if gone else "none merged"
        say_sentence(f"Shards of the bucket of {entity_id} on {resource}: {what}.")
    _show_after(repository, entity_id, resource, output)


def _find(repository: "SyncRepository", entity_id: str, resource: str) -> "Bucket":
    if (found := repository.get_bucket(entity_id, resource)) is None:
        raise _no_bucket(repository, entity_id, resource)
    return found


def _no_bucket(repository: "SyncRepository", entity_id: str, resource: str) -> CommandError:
    left = _left_without_bucket(repository, entity_id, resource)
    return CommandError(f"there is no bucket of {entity_id} on {resource}: {left}, and nothing was written")


def _left_without_bucket(repository: "SyncRepository", entity_id: str, resource: str) -> str:
    limits, _, _ = repository.resolve_limits(entity_id, resource)
    blocked = [limit.name for limit in limits if limit.blocks and not limit.shadow]
    return f"a capacity of 0 blocks {', '.join(blocked)}" if blocked else "all tokens are available"


def _show_after(repository: "SyncRepository", entity_id: str, resource: str, output: OutputForm) -> None:
    after = as_declared(repository, _find(repository, entity_id, resource))
    if output == "json":
        say_json(plain_bucket(after))
    else:
        say_buckets([after])
