"""The CloudFormation stack: its options, its template, and the code that deploys, checks and deletes it."""
