"""What lives here: `zae-limiter limits`: a namespace's limits from files under version control.
What never does: a request to anything but the provisioner's Lambda.
"""
