"""DynamoDB's JSON protocol over HTTP/1.1, without I/O: signed requests as bytes, bytes as answers.

Clients have the sockets, ``aws`` has the credentials.
"""
