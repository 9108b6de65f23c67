"""A job: one write to the table that a batch requires."""

from dataclasses import dataclass
from typing import Literal

from zae_limiter.maintenance import Flow

from .held import PendingUse

Kind = Literal["snapshots", "refills", "splits", "merges", "archived", "traced", "dead_letters"]


@dataclass(frozen=True, slots=True)
class Job:
    """A flow that returns the number of its changes.

    ``records`` are the sequence numbers of its records, earliest first: if the job fails, the stream comes again from
    the first of them. ``held`` are the uses that no record brings again: if the job fails, they stay in the state of
    the window. Without both, a later batch repeats the job.
    """

    kind: Kind
    flow: Flow[int]
    records: tuple[str, ...] = ()
    held: tuple[PendingUse, ...] = ()
