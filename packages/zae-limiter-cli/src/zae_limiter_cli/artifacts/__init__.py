"""What lives here: the code of a Lambda as a zip, put together from what is installed.
What never does: a network, pip, Docker, or an import of a Lambda.
"""
