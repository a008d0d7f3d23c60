"""What the algorithms run on: memory, inside the server, over a connection.

Import the one you need from its module; this package loads none of them.
"""
