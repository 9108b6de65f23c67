"""Draw the loop of declarative limits: the file, the plan, the table; each plan is what the library computes."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from zae_limiter_manifest import Address, LimitsManifest, LiveItem, Plan, ResourceDecl, compute_diff, fingerprint

from .svg import arrow, box, picture, text

PLACE: Final = Address("gpt-4")
STEPS: Final = (  # what happens, what the file has then, what somebody has written into the table by hand
    ("A pull request adds a limit", 100, None),
    ("Another one doubles it", 200, None),
    ("Somebody writes to the table", 200, 500),
    ("Nothing is left to do", 200, None),
)


class Turn(NamedTuple):
    """A turn of the loop: what happens, the file, the table before, and the plan."""

    event: str
    declared: int
    live: int | None
    plan: str


def turns() -> list[Turn]:
    """Return the turns; each applies its plan, so that the next one finds what the file had."""
    found: list[Turn] = []
    live: dict[Address, LiveItem] = {}
    managed = _manifest(None).managed_set()
    for event, capacity, by_hand in STEPS:
        desired = _manifest(capacity)
        if by_hand is not None:
            live = {PLACE: LiveItem(_declared(by_hand), live[PLACE].fingerprint)}
        plan = compute_diff(desired, live, managed=managed)
        found.append(Turn(event, capacity, _capacity(live[PLACE]) if live else None, _words(plan)))
        live = {PLACE: LiveItem(_declared(capacity), fingerprint(_declared(capacity)))}
        managed = desired.managed_set()
    return found


def _manifest(capacity: int | None) -> LimitsManifest:
    limits = {} if capacity is None else {"gpt-4": {"limits": {"rpm": {"capacity": capacity}}}}
    return LimitsManifest.from_dict({"namespace": "my-app", "resources": limits})


def _declared(capacity: int) -> ResourceDecl:
    return _manifest(capacity).resources["gpt-4"]


def _capacity(item: LiveItem) -> int:
    assert isinstance(item.decl, ResourceDecl)
    return item.decl.limits["rpm"].capacity


def _words(plan: Plan) -> str:
    if not plan.changes:
        return "no changes"
    (change,) = plan.changes
    return f"{change.action}, drift" if change.drift else change.action


def loop() -> str:
    """Return the picture of the loop."""

    def shapes() -> Iterator[str]:
        yield text(70, 24, "the file", "title", anchor="middle")
        yield text(220, 24, "the plan", "title", anchor="middle")
        yield text(370, 24, "the table", "title", anchor="middle")
        for number, turn in enumerate(found):
            yield from _turn(40 + number * 74, turn)

    found = turns()
    said = "; ".join(f"{turn.event}: file {turn.declared}, table {turn.live or 'empty'}, {turn.plan}" for turn in found)
    return picture("The loop of declarative limits", 440, 340, shapes(), said)


def _turn(top: float, turn: Turn) -> Iterator[str]:
    yield text(220, top + 12, turn.event, "small", anchor="middle")
    for left, words in ((20, f"rpm: {turn.declared}"), (320, f"rpm: {turn.live}" if turn.live else "empty")):
        yield box(left, top + 20, 100, 36)
        yield text(left + 50, top + 43, words, anchor="middle")
    yield text(220, top + 36, turn.plan, "no" if "drift" in turn.plan else "yes", anchor="middle")
    if turn.plan != "no changes":
        yield text(220, top + 58, f"apply: {turn.declared}", "small", anchor="middle")
        yield arrow((124, top + 44), (316, top + 44))
