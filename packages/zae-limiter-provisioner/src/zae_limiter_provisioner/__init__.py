"""What lives here: the Lambda that brings a table to what a manifest declares.
What never does: keys, attributes, or a client of its own.
"""
