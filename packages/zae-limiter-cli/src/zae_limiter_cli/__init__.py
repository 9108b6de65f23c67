"""What lives here: the command `zae-limiter`.
What never does: a rule about limits, or an import of a Lambda.
"""
