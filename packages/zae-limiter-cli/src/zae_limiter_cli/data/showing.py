"""Show limits, entities, namespaces and buckets as tables for people and as plain values for programs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..columns import say_columns, say_json
from ..options import OutputForm
from ..rates import amount, in_money, rate
from ..times import both, iso, shown

if TYPE_CHECKING:
    from zae_limiter import Entity, Limit, Override
    from zae_limiter.values import Bucket, BucketLimit, Namespace
    from zae_limiter.values.resolution import Composed, Said

UNLIMITED = "unlimited"
LIMIT_HEAD = ("LIMIT", "CAPACITY", "BURST", "REFILL")
VALUES_HEAD = ("LIMIT", "WHEN", "CAPACITY", "BURST", "REFILL")


def show_limits(place: Mapping[str, Any], limits: Sequence["Limit"], output: OutputForm, *, none: str) -> None:
    """Print the limits at a place; print ``none`` for people if there are none."""
    mode = LevelMode.of(limits)
    if output == "json":
        say_json({**place, "limits": plain_limits(limits), **mode.plain()})
        return
    if limits:
        say_columns([LIMIT_HEAD, *map(limit_cells, limits)])
    elif not mode.sentence:
        click.echo(none)
    if mode.sentence:
        click.echo(mode.sentence)


class LevelMode(NamedTuple):
    """Whether a level is unlimited, or extends the next one."""

    unlimited: bool
    extends: bool

    @classmethod
    def of(cls, limits: object) -> "LevelMode":
        """Return the mode of limits as the repository has them."""
        return cls(getattr(limits, "unlimited", False), getattr(limits, "extends", False))

    def given(self, limits: Sequence["Limit"]) -> "Sequence[Limit | str]":
        """Return the limits as the repository takes them."""
        return UNLIMITED if self.unlimited else limits

    def plain(self) -> dict[str, Any]:
        """Return what is true of both, for a JSON document."""
        return {name: True for name, value in self._asdict().items() if value}

    @property
    def sentence(self) -> str:
        """What people read of it; empty for limits that replace those of the next level."""
        if self.unlimited:
            return "Unlimited, whatever the next levels have."
        return "They add to the limits of the next level." if self.extends else ""


def together(composed: "Composed") -> str:
    """Return what people read of the limits that levels have together, with the level of each that is not the first."""
    from .places import words_of

    said = []
    for limit in composed.limits:
        source = composed.sources[limit.name]
        by = "" if source == composed.source else f" by {words_of(source)}"
        said.append(f"{limit.name} {limit.text}{by}")
    return f"Together with the next levels: {'; '.join(said)}."


def plain_mode(said: "Said | None") -> dict[str, Any]:
    """Return whether a level is unlimited, or extends the next one, for a JSON document."""
    return {} if said is None or said.mode is None else {said.mode: True}


def level_cells(limits: Sequence["Limit"]) -> list[tuple[str, ...]]:
    """Return the cells of a level's limits; one row of no limits for one that is unlimited."""
    return [limit_cells(each) for each in limits] or [(UNLIMITED, "-", "-", "-")]


def override_line(override: "Override") -> str:
    """Return the line that announces an override and its end."""
    adds = ", which adds to what holds without it" if override.extends else ""
    return f"Override until {both(override.until)}{adds}:"


def plain_override(override: "Override | None") -> dict[str, Any] | None:
    """Return the end and the limits of an override."""
    if override is None:
        return None
    extends = {"extends": True} if override.extends else {}
    return {"until": iso(override.until), "limits": plain_limits(override.limits), **extends}


def show_done(place: Mapping[str, Any], action: str, output: OutputForm, *, message: str, **more: Any) -> None:
    """Print that an action on a place is done; JSON has ``more`` of it."""
    if output == "json":
        say_json({**place, "action": action, **more})
    else:
        click.echo(message)


def show_entity(entity: "Entity", output: OutputForm) -> None:
    """Print the record of an entity."""
    if output == "json":
        say_json(asdict(entity))
        return
    metadata = ", ".join(f"{word(key)}={word(_text(value))}" for key, value in sorted(entity.metadata.items()))
    say_columns(
        [
            ("entity", entity.entity_id),
            ("name", word(entity.name)),
            ("parents" if len(entity.parent_ids) > 1 else "parent", words(entity.parent_ids)),
            *([] if entity.tier is None else [("tier", entity.tier)]),
            ("cascade", yes_or_no(entity.cascade)),
            ("metadata", metadata or "-"),
            ("created", entity.created_at),
            ("version", str(entity.version)),
        ]
    )


def _text(value: object) -> str:
    """Return a value of metadata as text: a string as it is, any other value in JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def show_entities(entities: Sequence["Entity"], output: OutputForm, *, none: str) -> None:
    """Print a row for each entity."""
    if output == "json":
        say_json([asdict(each) for each in entities])
    elif entities:
        cells = ((each.entity_id, yes_or_no(each.cascade), word(each.name)) for each in entities)
        say_columns([("ENTITY", "CASCADE", "NAME"), *cells])
    else:
        click.echo(none)


def show_namespaces(namespaces: Sequence["Namespace"], output: OutputForm, *, none: str) -> None:
    """Print a row for each namespace."""
    if output == "json":
        say_json([asdict(each) for each in namespaces])
    elif namespaces:
        cells = ((each.name, each.namespace_id, each.created_at, each.deleted_at or "-") for each in namespaces)
        say_columns([("NAME", "ID", "CREATED", "DELETED"), *cells])
    else:
        click.echo(none)


def say_all_buckets(buckets: Sequence["Bucket"]) -> None:
    """Print a row for each limit of each bucket, with whose it is."""
    head = ("ENTITY", "RESOURCE", "LIMIT", "AVAILABLE", "BURST", "REFILL", "SHARDS")
    cells = (
        (bucket.entity_id, bucket.resource, bucket.shard_count, each) for bucket in buckets for each in bucket.limits
    )
    say_columns([head, *((entity, on, *_left(each), str(shards)) for entity, on, shards, each in cells)])


def say_buckets(buckets: Sequence["Bucket"]) -> None:
    """Print a row for each limit of each bucket."""
    head = ("RESOURCE", "LIMIT", "AVAILABLE", "BURST", "REFILL", "CONSUMED", "SHADOWED", "SHARDS", "EXPIRES (UTC)")
    say_columns([head, *(cells for bucket in buckets for cells in _bucket_cells(bucket))])


def plain_bucket(bucket: "Bucket") -> dict[str, Any]:
    """Return every field of a bucket, as plain values."""
    return {
        "entity_id": bucket.entity_id,
        "resource": bucket.resource,
        "shard_count": bucket.shard_count,
        "anchor": iso(_instant(bucket.anchor_ms)),
        "expires_at": None if bucket.expires_at_ms is None else iso(_instant(bucket.expires_at_ms)),
        "shadowed": bucket.shadowed,
        "limits": {
            each.limit.name: {
                "available": each.available,
                "consumed": each.consumed,
                **({} if each.window_ends_ms is None else {"window_ends": iso(_instant(each.window_ends_ms))}),
                **_plain_limit(each.limit),
                **in_money(each.limit.unit, available=each.available, consumed=each.consumed),
            }
            for each in bucket.limits
        },
    }


def plain_limits(limits: Sequence["Limit"], now_ms: int | None = None) -> dict[str, dict[str, Any]]:
    """Return the limits by name; with ``now_ms``, those with a schedule have the values ``in_force`` then."""
    plain = {limit.name: _plain_limit(limit) for limit in limits}
    for limit in limits if now_ms is not None else ():
        if limit.schedule:
            plain[limit.name]["in_force"] = _plain_limit(in_force(limit, now_ms or 0))
    return plain


def in_force(limit: "Limit", now_ms: int) -> "Limit":
    """Return the values that a limit has at an instant, by its schedule if it has one."""
    from zae_limiter.values.timetables import timetable_of

    entry = timetable_of(limit).at(now_ms).entry if limit.schedule else None
    return replace(limit, schedule=()) if entry is None else limit.during(entry)


def values_cells(limit: "Limit", now_ms: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each value that a limit has, under ``VALUES_HEAD``: first those in force."""
    from zae_limiter.values.schedule_text import write_when
    from zae_limiter.values.timetables import timetable_of

    held = timetable_of(limit).at(now_ms) if limit.schedule else None
    entry = None if held is None else held.entry
    name, *now = limit_cells(in_force(limit, now_ms))
    yield name, "now" if held is None or entry is None else f"now: {held.text}", *now
    for other in limit.schedule:
        if other != entry:
            when = write_when({each.name: getattr(other, each.name) for each in fields(other)})
            yield limit.name, when, *limit_cells(limit.during(other))[1:]
    if entry is not None:
        yield limit.name, "at other times", *limit_cells(replace(limit, schedule=()))[1:]


def limit_cells(limit: "Limit") -> tuple[str, str, str, str]:
    """Return the cells of a limit, under ``LIMIT_HEAD``."""
    return _name(limit), amount(limit.capacity, limit.unit), _burst(limit), rate(limit)


def word(text: str | None) -> str:
    """Return the text on one line, ``-`` for none."""
    if text is None:
        return "-"
    return text if text.isprintable() else json.dumps(text)


def words(texts: Iterable[str]) -> str:
    """Return the texts on one line, behind one another; ``-`` for none."""
    return ", ".join(map(word, texts)) or "-"


def yes_or_no(truth: bool) -> str:  # noqa: FBT001  it is what is shown
    """Return ``yes`` or ``no``, for people."""
    return "yes" if truth else "no"


def _bucket_cells(bucket: "Bucket") -> list[tuple[str, ...]]:
    expires = "-" if bucket.expires_at_ms is None else shown(_instant(bucket.expires_at_ms))
    return [
        (
            bucket.resource,
            *_left(each),
            amount(each.consumed, each.limit.unit),
            f"{bucket.shadowed:,}",
            str(bucket.shard_count),
            expires,
        )
        for each in bucket.limits
    ]


def _left(each: "BucketLimit") -> tuple[str, ...]:
    left = amount(each.available, each.limit.unit)
    return _name(each.limit), f"{left}{of_window(each)}", _burst(each.limit), rate(each.limit)


def of_window(each: "BucketLimit") -> str:
    """Return until when what is left is that of the window under way, behind it; empty for a limit without one."""
    return "" if each.window_ends_ms is None else f" until {shown(_instant(each.window_ends_ms))}"


def _name(limit: "Limit") -> str:
    marks = [
        *(["shadow"] if limit.shadow else []),
        *([f"prefetch {limit.prefetch:g} s"] if limit.prefetch else []),
        *([f"weights {limit.weights}"] if limit.weights else []),
        *([f"alert {','.join(map(str, limit.alert))} %"] if limit.alert else []),
        *([f"schedule {'; '.join(map(str, limit.schedule))}{_entry_now(limit)}"] if limit.schedule else []),
    ]
    return f"{limit.name} ({', '.join(marks)})" if marks else limit.name


def _entry_now(limit: "Limit") -> str:
    """Return which entry of a schedule holds now, until when, and its values; empty for none. It goes by this
    machine's clock, which is exact enough for a list.
    """
    from zae_limiter.values.timetables import timetable_of

    held = timetable_of(limit).at(int(datetime.now(UTC).timestamp() * 1000))
    return "" if held.entry is None else f"; now {held.text}: {rate(limit.during(held.entry))}"


def _burst(limit: "Limit") -> str:
    burst = amount(limit.burst, limit.unit)
    return f"{burst} ({amount(limit.usable_burst, limit.unit)} usable)" if limit.prefetch else burst


def _plain_limit(limit: "Limit") -> dict[str, Any]:
    usable = {"usable_burst": limit.usable_burst} if limit.prefetch else {}
    return {name: value for name, value in limit.to_dict().items() if name != "name"} | usable


def _instant(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
