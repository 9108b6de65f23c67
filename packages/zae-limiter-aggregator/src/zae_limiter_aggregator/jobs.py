"""What is to be written to the table because of a batch.

Lives here: that value. Never: why it is to be written (work, shards), or when (running).
"""

from dataclasses import dataclass
from typing import Literal

from zae_limiter.maintenance import Flow

Kind = Literal["snapshots", "refills", "splits", "archived"]


@dataclass(frozen=True, slots=True)
class Job:
    """A flow that answers how much it changed, if anything. ``first`` is the earliest record that it is done for.

    Where it fails, the stream comes again from there; ``None``: a later batch does as well.
    """

    kind: Kind
    flow: Flow[int]
    first: str | None = None
