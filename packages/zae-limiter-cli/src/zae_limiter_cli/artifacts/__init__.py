"""The code of a Lambda as a zip, built from the installed packages.

Never: a network, pip, Docker, or an import of a Lambda.
"""
