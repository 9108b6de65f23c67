"""Send records that can never be processed to the dead-letter queue, so that the stream can continue.

A message says where the record is, not what is in it: the stream keeps it for a day.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from zae_limiter.maintenance import sk_state

from .batch import Failure
from .held import PendingUse
from .records import Record, key_of, sequence_of
from .settings import Settings

CONDITION: Final = "UnreadableRecord"

SendMessage = Callable[..., Any]


class DeadLetter(NamedTuple):
    """A record that can never be processed: its sequence number, its table key, and the problem."""

    sequence: str
    key: Mapping[str, str]
    problem: str
    stream: str


def dead_letters(
    records: Sequence[Record], hopeless: Iterable[Failure], failures: Iterable[Failure]
) -> list[DeadLetter]:
    """Return the hopeless records, once each; without those from the first failure on, because they come again."""
    problems = {each.sequence: each.problem for each in hopeless}
    again = {each.sequence for each in failures}
    letters = []
    for record in records:
        sequence = sequence_of(record)
        if sequence in again:
            break
        if sequence in problems:
            stream = str(record.get("eventSourceARN", ""))
            letters.append(DeadLetter(sequence, key_of(record), problems.pop(sequence), stream))
    return letters


def letter_of_held(held: PendingUse, problem: str) -> DeadLetter:
    """Return the letter of a use that the window held and that can never be counted."""
    label = held.use.mark.partition("#")[0]  # of the stream: the ARN came with the record
    return DeadLetter(held.sequence, {"PK": held.bucket.pk, "SK": sk_state()}, problem, label)


def open_queue() -> SendMessage:
    """Return the method ``send_message`` of a new SQS client."""
    import boto3

    send: SendMessage = boto3.client("sqs").send_message
    return send


def send_letter(send: SendMessage, settings: Settings, letter: DeadLetter) -> bool:
    """Send one letter to the queue of the settings."""
    body = {
        "condition": CONDITION,
        "problem": letter.problem,
        "stack": settings.stack,
        "streamArn": letter.stream,
        "sequenceNumber": letter.sequence,
        "key": letter.key,
    }
    send(QueueUrl=settings.dead_letters_url, MessageBody=json.dumps(body))
    return True
