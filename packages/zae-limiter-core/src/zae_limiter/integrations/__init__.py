"""Rate limits in web frameworks: a module for each, which imports its framework, so this package imports none of them.

``asgi`` needs no framework. ``fastapi``, ``flask`` and ``django`` need the extra of their name.
"""
