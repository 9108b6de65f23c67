"""Limits in files under version control: planned by the planner's Lambda, applied by the provisioner's. Only these two
are asked.
"""
