"""Rate limits in other libraries: a module for each, which imports its library, so this package imports none of them.

``asgi`` and ``tokens`` need no library. The others need the extra of their name.
"""
