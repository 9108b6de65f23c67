"""The provisioner's handler, as CloudFormation reaches it, and whoever may invoke it as if they were CloudFormation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import strategies as st

from support.manifest.manifests import manifests
from support.provisioner.provisions import World
from support.provisioner.stack_replies import Replies, response_url
from support.provisioner.stack_sender import OWNER, STACK, Stack, texts
from zae_limiter_manifest import LimitsManifest, StackProperties
from zae_limiter_provisioner import handler
from zae_limiter_provisioner.stack_events import LARGEST_REPLY

from ..batches import Surface
from ..judging import Tally, Unclean, bounded, check_text
from ..junk import damaged, json_junk
from .library import everything
from .provisioner import VICTIM

GUESSED = "arn:aws:cloudformation:eu-central-1:123456789012:stack/tenants/00000000"
HERE = "http://here/"  # stands for the address that takes replies
URLS = [HERE, HERE, HERE, "http://169.254.169.254/", "https://evil.example/", "file:///etc/passwd", "http://[", ""]


def _event(kind: str, wanted: LimitsManifest, stack: str, physical: str | None, url: str) -> dict[str, Any]:
    said = texts({"ServiceToken": "arn", **StackProperties(wanted).to_dict()})
    return {
        "RequestType": kind,
        "RequestId": "request-1",
        "ResponseURL": url,
        "StackId": stack,
        "LogicalResourceId": "TenantLimits",
        "ResourceType": "Custom::ZaeLimiterLimits",
        "ResourceProperties": said,
        **({"PhysicalResourceId": physical} if physical else {}),
    }


physical_ids = [None, f"{OWNER}/victim", "invented-id", f"stack:{GUESSED}/TenantLimits/victim", "/", "x" * 2000]
sound = st.builds(
    _event,
    st.sampled_from(["Create", "Update", "Delete"]),
    manifests | st.just(VICTIM),
    st.sampled_from([GUESSED, GUESSED[:-1] + "1"]),
    st.sampled_from(physical_ids),
    st.sampled_from(URLS),
)
events = damaged(sound, json_junk)


@contextmanager
def opened() -> Iterator[Surface]:
    """A stack that owns a namespace, and events of others about it."""
    with response_url() as replies, pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "log_as_json", lambda *_, **__: None)

        def feed(script: list[dict[str, Any]], tally: Tally) -> None:
            world = World()
            owner = Stack(world, replies, patch, STACK)
            owner.do("Create", VICTIM)
            store, victim = world.store(), world.table().register("victim").namespace_id
            before = everything(store, victim)
            for event in script:
                _send(event, replies, tally)
            if everything(store, victim) != before:
                raise Unclean("the namespace of another stack changed")

        yield Surface(st.lists(events, min_size=1, max_size=3), feed)


def _send(event: Any, replies: Replies, tally: Tally) -> None:
    replies.bodies.clear()
    here = isinstance(event, dict) and event.get("ResponseURL") == HERE
    sent = {**event, "ResponseURL": replies.url} if here else event
    with bounded():
        answer = handler.on_event(sent, None)
    if len(replies.bodies) != (here and "RequestType" in sent):
        raise Unclean(f"{len(replies.bodies)} replies were sent")
    if any(len(body) >= LARGEST_REPLY for body in replies.bodies):
        raise Unclean("the reply is larger than CloudFormation accepts")
    failed = str(answer.get("status")).lower() == "failed"
    if failed and "reason" in answer:
        check_text(answer["reason"])
        if "see the Lambda's log" in answer["reason"]:
            raise Unclean(answer["reason"])
    tally.refused += failed
    tally.accepted += not failed
