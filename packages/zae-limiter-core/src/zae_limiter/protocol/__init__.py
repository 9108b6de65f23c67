"""DynamoDB's JSON protocol over HTTP/1.1, without I/O: signed requests as bytes, bytes as answers.

Never: a socket, an event loop, the source of credentials.
"""
