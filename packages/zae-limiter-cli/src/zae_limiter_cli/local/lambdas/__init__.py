"""Run Lambda functions, each call in a process of AWS's own runtime client.

moto knows which functions there are. This package imports little: it is loaded in every such process.
"""
