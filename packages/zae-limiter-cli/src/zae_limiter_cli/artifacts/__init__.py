"""Build the code of a Lambda as a zip from the installed packages, without a network, pip, Docker, or an import of a
Lambda.
"""
