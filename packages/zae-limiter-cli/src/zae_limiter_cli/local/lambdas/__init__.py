"""What lives here: Lambda functions that really run, each call in a process of AWS's own runtime client.
What never does: where functions are declared (moto), or an import: it is loaded in every such process.
"""
