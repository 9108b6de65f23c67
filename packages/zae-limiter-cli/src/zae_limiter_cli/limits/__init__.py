"""Limits in files under version control: planned by the planner's Lambda, applied by the provisioner's.

Never: a request to anything but these two.
"""
