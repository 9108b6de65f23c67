"""The result of the burst: calls by caller, and their cost."""

from collections.abc import Iterator

from zae_limiter.stores import Meter

from ..terminal import Terminal
from .events import CallBoard, after_wait
from .wording import count, seconds, units


def summarize(terminal: Terminal, board: CallBoard, meter: Meter) -> None:
    """Print the calls by caller, and their cost."""
    terminal.say()
    width = max(len(caller) for caller in board.callers)
    terminal.say(terminal.paint(f"  {'':<{width}}  calls  admitted  of them after a wait  refused", "dim"))
    for caller in board.callers:
        terminal.say(f"  {caller:<{width}}  {_row(board, caller)}")
    terminal.say()
    for line in _costs(board, meter):
        terminal.say(f"  {line}")


def _row(board: CallBoard, caller: str) -> str:
    admitted = board.calls(caller, "admitted", "uncounted")
    late = after_wait(admitted)
    longest = f"{len(late)} (up to {seconds(max(event.waited for event in late))})" if late else "-"
    calls, refused = len(board.calls(caller)), len(board.calls(caller, "refused"))
    return f"{calls:>5}  {len(admitted):>8}  {longest:>20}  {refused or '-':>7}"


def _costs(board: CallBoard, meter: Meter) -> Iterator[str]:
    requests = ", ".join(f"{number:,} {name}" for name, number in meter.requests.most_common())
    total = meter.write_units + meter.index_units
    calls, acquires = count(len(board.calls("")), "call"), count(board.acquires, "acquire")
    yield f"{calls} made {acquires}: a call that waited asked again."
    yield f"Requests     {meter.requests.total():>5,}   {requests}"
    split = f"{units(meter.write_units)} table + {units(meter.index_units)} index"
    yield f"Write units  {units(total):>5}   {split}: {total / board.acquires:.2f} per acquire"
    yield "Concurrent acquires of a bucket share one write."
    if lost := len(board.calls("", "uncounted")):
        yield f"{count(lost, 'call')} admitted uncounted: the table was unavailable, and the manifest says allow"
