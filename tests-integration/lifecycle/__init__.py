"""Lives of processes that use the limiter, and how they end: `just lifecycle`.

Lives here: processes that are interrupted, forked, stopped, killed, shut down, over a store that is as good or bad as
told; an independent ledger of what they were told; and a judge who holds it against the table.
Never: a claim about what one request does (test_failures).

``kinds`` has a file for each kind of life: ``program`` is what the process does, ``attend`` what is done to it.
"""
