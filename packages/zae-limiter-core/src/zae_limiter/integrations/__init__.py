"""Limit the requests and calls of other libraries: a module for each, which imports its library; this package imports
none.

``asgi`` and ``tokens`` need no library. The others need the extra of their name.
"""
