"""The commands about a stack of CloudFormation: `deploy`, `status`, `delete` and their like."""
