"""What lives here: what Lambda does for an event source mapping of a table's stream: filter, deliver, try again.
What never does: AWS by another way than its API, for it reads and calls as any client does.
"""
