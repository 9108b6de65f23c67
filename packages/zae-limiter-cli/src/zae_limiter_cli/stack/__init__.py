"""What lives here: the stack of CloudFormation: its options, its template, and what makes, shows and removes it.
What never does: a key or an item of the table, or the code of a Lambda (artifacts).
"""
