"""The command `zae-limiter`.

Never: a rule about limits, or an import of a Lambda.
"""
