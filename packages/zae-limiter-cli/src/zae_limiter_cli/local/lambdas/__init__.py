"""Lambda functions that really run, each call in a process of AWS's own runtime client.

Never: where functions are declared (moto), or an import: it is loaded in every such process.
"""
