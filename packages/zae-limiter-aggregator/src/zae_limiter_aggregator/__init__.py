"""What lives here: the Lambda on the table's stream.
What never does: a decision about admitting a request.
"""
