"""What lives here: the template of CloudFormation, as values.
What never does: a call of AWS.
"""
