"""What lives here: the command `zae-limiter demo`.
What never does: anything that another command needs.
"""
