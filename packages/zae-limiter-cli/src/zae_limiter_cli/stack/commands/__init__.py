"""What lives here: the commands that make, show and remove a stack: their options and their words.
What never does: a call of AWS.
"""
