"""What lives here: limits declared in YAML, as frozen values, and how they are loaded.
What never does: I/O, AWS, or anything of the library.
"""
