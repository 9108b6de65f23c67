"""The provisioner's handler, as `lambda:InvokeFunction` reaches it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import strategies as st

from support.manifest.manifests import manifests
from support.provisioner.provisions import EVERY_LEVEL, World, manifest
from zae_limiter_manifest import Answer, unpack
from zae_limiter_manifest.requests import ACTIONS
from zae_limiter_provisioner import handler

from .. import mistakes
from ..batches import Surface
from ..judging import Tally, Unclean, bounded, check_text
from ..junk import damaged, json_junk
from ..packs import packed, unpack_bombs
from .library import everything

VICTIM = manifest("victim", resources={"r": {"limits": {"rpm": {"capacity": 1}}}})


def _request(action: Any, wanted: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {"action": action, "manifest": wanted.to_dict(), "namespace": wanted.namespace, **options}


options = st.fixed_dictionaries(
    {},
    optional={
        "principal": st.sampled_from(["ann", "x" * 100]),
        "lock_id": st.sampled_from(["id", "x"]),
        "take_over": st.booleans(),
        "expected_serial": st.integers(0, 2),
        "expected_plan": st.just("sha256:" + "0" * 64),
        "next": st.sampled_from(["0" * 16 + ":0", "x", ":"]),
        "lock_timeout": st.just(0),
    },
)
sound = st.builds(_request, st.sampled_from(ACTIONS), manifests | st.just(EVERY_LEVEL), options)
events = st.one_of(
    mistakes.requests,
    damaged(sound),
    sound.map(packed),
    damaged(sound).map(packed),
    damaged(sound.map(packed)),
    unpack_bombs,
    json_junk,
)
scripts = st.lists(events, min_size=1, max_size=4)


def check_answer(raw: dict[str, Any], tally: Tally) -> None:
    """Count an answer. Raises `Unclean` for one that no client can read, or that tells of a fault of ours."""
    answer = Answer.from_dict(unpack([raw]))
    for failure in answer.errors:
        check_text(failure.message)
        if failure.code == "internal":
            raise Unclean(failure.message)
    if answer.status == "failed":
        tally.refused += 1
    else:
        tally.accepted += 1


MANIFEST_SECONDS = 120.0  # a packed manifest may have 400,000 entities with nothing in them, 75 us each


@contextmanager
def opened() -> Iterator[Surface]:
    """A table in memory for each script, with a namespace in it that no request names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "log_as_json", lambda *_, **__: None)

        def feed(script: list[Any], tally: Tally) -> None:
            world = World()
            world.apply(VICTIM)
            store, victim = world.store(), world.table().register("victim").namespace_id
            before = everything(store, victim)
            patch.setattr(handler, "table_of_environment", world.table)
            for event in script:
                with bounded(MANIFEST_SECONDS):
                    check_answer(handler.on_event(event, None), tally)
            if everything(store, victim) != before:
                raise Unclean("another namespace changed")

        yield Surface(scripts, feed)
