"""Records of buckets and audit events, and the same with some of their parts damaged.

Lives here: how records are made. Never: a claim.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.aggregator.lives import SETTINGS, START_MS, Life
from support.aggregator.streams import Record, record
from zae_limiter.schema.audit import audit_item
from zae_limiter.schema.items import BucketId
from zae_limiter.values.audit import AuditEvent

WITH_QUEUE = replace(SETTINGS, dead_letters_url="https://sqs.eu-west-1.amazonaws.com/123456789012/dead")


def image(life: Life, entity: str, uses: int, **more: Any) -> dict[str, Any]:
    """A bucket after so many uses of one token."""
    place = BucketId(life.repository.namespace_id, entity, "gpt-4")
    counts = {"b_tpm_tc": 1000 * uses, "b_wcu_tc": 1000 * uses, "b_tpm_tk": 0, "ev": uses}
    return {**place.attributes(), "rf": START_MS, "shard_count": 1, **counts, **more}


def used(life: Life, number: int, entity: str = "good", uses: int = 1, **more: Any) -> Record:
    """The record of use number ``uses`` of a bucket."""
    before = image(life, entity, uses - 1) if uses > 1 else None
    return record(number, before, image(life, entity, uses, **more), at_ms=START_MS)


class Deep(dict[str, Any]):
    """A value that is nested so deep that no report of a failure could show it."""

    def __init__(self, levels: int) -> None:
        value: Any = {"S": "end"}
        for _ in range(levels):
            value = {"M": {"a": value}}
        super().__init__(value)
        self.levels = levels

    def __repr__(self) -> str:
        return f"Deep({self.levels})"


NUMBERS = ["1.5", "NaN", "Infinity", "-1", "0", "1E+125", "9" * 38, "9" * 5000, "1_0", str(10**12), "", "\u0661", "64"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from([10**400, "x" * 3000])
)
JUNK = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["N", "S", "M", "L", "NULL", "BOOL"]), SCALARS, max_size=2),
    st.builds(lambda text: {"N": text}, st.sampled_from(NUMBERS)),
    st.builds(
        lambda text: {"S": text}, st.sampled_from(["#STATE", "#AUDIT#x", "ns/BUCKET#e#r#0", "a/b", "/", "x" * 3000])
    ),
    st.builds(Deep, st.sampled_from([3, 300, 400, 3000])),
)


def paths(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a record that may be damaged."""
    for name, part in value.items():
        if name not in {"SequenceNumber", "dynamodb"}:
            yield (*way, name)
        if isinstance(part, dict):
            yield from paths(part, (*way, name))


@st.composite
def damaged_records(draw: st.DrawFn) -> Record:
    """A record of a bucket or of an audit event with one to three places damaged, or missing."""
    life = Life()
    at = "2024-01-01T10:00:00.000Z"
    event = AuditEvent(f"{at}-1", "e", "limits_set", None, at, None, None, None)
    sound = draw(st.sampled_from([used(life, 1, uses=2), record(1, audit_item("ns", event, expires_at=1), None)]))
    damaged: Record = copy.deepcopy(sound) | {"userIdentity": {"principalId": "dynamodb.amazonaws.com"}}
    for path in draw(st.lists(st.sampled_from(list(paths(damaged))), min_size=1, max_size=3, unique=True)):
        holder: Any = damaged
        for name in path[:-1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            if draw(st.booleans()):
                holder.pop(path[-1], None)
            else:
                holder[path[-1]] = draw(JUNK)
    return damaged


def among_sound_ones(life: Life, bad: Sequence[Record]) -> list[Record]:
    """A batch in which every damaged record has a sound one of the same bucket `good` before and after it."""
    records = [used(life, 10, uses=1)]
    for number, each in enumerate(bad, 2):
        numbered = copy.copy(each) | {"dynamodb": each["dynamodb"] | {"SequenceNumber": str(10 * number)}}
        records += [numbered, used(life, 10 * number + 1, uses=number)]
    for each in records[1::2]:
        pk = each["dynamodb"].get("Keys")
        if isinstance(pk, dict) and pk.get("PK") == records[0]["dynamodb"]["Keys"]["PK"]:
            each["dynamodb"]["Keys"] = pk | {"PK": {"S": f"{life.repository.namespace_id}/BUCKET#bad#gpt-4#0"}}
    return records
