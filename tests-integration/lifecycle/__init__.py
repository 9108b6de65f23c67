"""Lives of processes that use the limiter, and their ends: `just lifecycle`.

Lives here: processes that are interrupted, forked, stopped, killed and shut down, over a store behind a fault proxy; a
ledger of their answers, independent of the limiter; and the verification of the ledger against the table.
Never: a claim about what one request does (test_failures).

A life is one run of a process. ``kinds`` has a file for each kind of life: ``program`` is what the process does,
``supervise`` what is done to it from outside.
"""
