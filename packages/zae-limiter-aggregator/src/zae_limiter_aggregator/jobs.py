"""A job: one write to the table that a batch requires."""

from dataclasses import dataclass
from typing import Literal

from zae_limiter.maintenance import Flow

Kind = Literal["snapshots", "refills", "splits", "archived"]


@dataclass(frozen=True, slots=True)
class Job:
    """A flow that returns the number of its changes.

    ``retry_from`` is the sequence number of its earliest record: if the job fails, the stream comes again from there.
    ``None`` means that a later batch repeats the job.
    """

    kind: Kind
    flow: Flow[int]
    retry_from: str | None = None
