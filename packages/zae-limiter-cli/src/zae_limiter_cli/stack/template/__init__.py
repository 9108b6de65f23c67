"""The template of CloudFormation, as values."""
