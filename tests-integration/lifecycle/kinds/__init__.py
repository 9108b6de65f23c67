"""The kinds of lives, a file each: ``WAYS`` and ``WEATHERS`` to live it, ``program``, ``attend``."""
