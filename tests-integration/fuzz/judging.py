"""Whether an outcome is clean: a value or a documented error, one line of text, in time, without much memory.

Lives here: the bounds. Never: a surface.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CPU_SECONDS = 30.0  # of this process; 400,000 entities with nothing in them take 9
PEAK_BYTES = 400_000_000  # a packed manifest of 400,000 entities, which are refused by their number, takes 270 MB
LONGEST_LINE = 2_000

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Unclean(Exception):
    """An outcome that nobody may get."""


@dataclass
class Tally:
    """The inputs of one surface, by outcome."""

    accepted: int = 0
    refused: int = 0

    @property
    def inputs(self) -> int:
        """All that had an outcome."""
        return self.accepted + self.refused


@contextmanager
def judging(tally: Tally, *documented: type[Exception]) -> Iterator[None]:
    """Count what the block does: end, or raise a documented error, which is dropped. Raises `Unclean` otherwise."""
    with bounded():
        try:
            yield
        except documented as error:
            check_text(str(error), error)
            tally.refused += 1
        except Unclean:
            raise
        except Exception as error:
            raise Unclean(f"{type(error).__name__}: {str(error)[:500]}") from error
        else:
            tally.accepted += 1


@contextmanager
def bounded(seconds: float | None = None) -> Iterator[None]:
    """Raises `Unclean` for a block that takes too long or too much memory."""
    begun, before = time.process_time(), _peak_bytes(anew=True)
    yield
    if (took := time.process_time() - begun) > (seconds or CPU_SECONDS):
        raise Unclean(f"it took {took:.1f} s")
    if (grown := _peak_bytes() - before) > PEAK_BYTES:
        raise Unclean(f"it took {grown // 1_000_000} MB")


def check_text(text: str, error: Exception | None = None) -> None:
    """Raises `Unclean` for a message that is not one short line, or does not name its field."""
    field = getattr(error, "field", None)
    if not text or not text.isprintable():
        raise Unclean(f"the message is not one printable line: {text[:500]!r}") from error
    if len(text) > LONGEST_LINE:
        raise Unclean(f"the message has {len(text)} characters: {text[:200]!r}") from error
    if isinstance(field, str) and field not in text:
        raise Unclean(f"the message does not name {field!r}: {text!r}") from error


def _peak_bytes(*, anew: bool = False) -> int:
    """The most memory that this process had so far, or since it was asked ``anew``; 0 where only Linux would know."""
    if not _STATUS.exists():
        return 0
    if anew:
        _CLEAR.write_text("5")  # forget the peak
    (peak,) = (line.split()[1] for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak) * 1024
