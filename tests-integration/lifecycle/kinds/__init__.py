"""The kinds of lives, a file each: ``program`` and ``supervise``, the ``MODES`` of the program and the ``NETWORKS``.

A mode is a choice between ways to write the program; proxy_control has the networks by name. A life has one of each.
"""
