"""Limits in files under version control: planned and applied by the provisioner's Lambda.

Never: a request to anything but the provisioner's Lambda.
"""
