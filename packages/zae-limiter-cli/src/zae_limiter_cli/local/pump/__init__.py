"""What Lambda does for an event source mapping of a table's stream: filter, deliver, try again.

Never: AWS by another way than its API, for it reads and calls as any client does.
"""
