"""A signal handler raises in a blocking call, alone in its process; the process goes on calling."""

import signal
import time
from types import FrameType

from zae_limiter import SyncRateLimiter

from ..callers import SyncCallers
from ..life import Life
from ..place import Place, ready
from ..plans import Interrupted, Plan

MODES = ("soft time limit", "KeyboardInterrupt", "SystemExit")
NETWORKS = ("slow", "healthy", "faulty", "late", "hung")
RAISES = {"soft time limit": Interrupted, "KeyboardInterrupt": KeyboardInterrupt, "SystemExit": SystemExit}
TIMES = 40
NOISE = r"Exception ignored in: .*\n(Traceback.*\n( .*\n|\n)*)?.*(Interrupted|KeyboardInterrupt|SystemExit).*\n?"
SERVED_SECONDS = 20.0  # on a busy machine


def supervise(life: Life) -> None:
    with life.process() as process:
        if life.network == "hung":
            life.pause()
        life.apply_network()
        life.pause()
        if life.network in {"hung", "late"}:
            life.proxy.use("healthy")
        process.wait()


def program(place: Place) -> None:
    callers = SyncCallers(place, SyncRateLimiter(place.open_sync()))
    callers.one(place.entity_id)
    ready()
    interrupt_again_and_again(callers)
    callers.limiter.close()


def interrupt_again_and_again(callers: SyncCallers, times: int = TIMES) -> None:
    """At any point of a call, from its first instruction to its last."""
    raised = RAISES[callers.place.mode]

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise raised

    signal.signal(signal.SIGALRM, interrupt)
    chance = callers.place.chance("interrupts")
    longest = 0.06
    for number in range(times):
        plan = Plan.drawn(chance, healthy=callers.place.healthy)
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, longest))
            begun = time.monotonic()
            callers.take(callers.place.entity_id, plan)
            longest = max(0.002, 1.5 * (time.monotonic() - begun))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except raised:
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        if callers.place.healthy and number % 4 == 0:
            callers.still_served(SERVED_SECONDS, why="after an interruption")
