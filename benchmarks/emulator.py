"""The emulator that benchmarks use.

Lives here: one of the tests' own, or the reason why it is not here. Never: a measurement.
"""

from contextlib import ExitStack

from .report import NotHere


def dynoxide(stack: ExitStack) -> str:
    """Where it answers, for as long as the stack is open. Raises ``NotHere``."""
    import emulators
    from fetch import Unavailable

    try:
        return stack.enter_context(emulators.running(emulators.dynoxide()))
    except Unavailable as reason:
        raise NotHere(str(reason)) from reason
