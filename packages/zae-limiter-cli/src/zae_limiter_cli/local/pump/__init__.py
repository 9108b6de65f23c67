"""Do what Lambda does for an event source mapping of a table's stream: filter, deliver, try again.

It uses AWS's API alone, as any client does.
"""
