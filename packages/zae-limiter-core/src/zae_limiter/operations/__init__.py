"""One request to the store as a frozen value, and how to read its answer.

Lives here: operations, answers, store errors, their DynamoDB form. Never: a client, a clock, a policy.
"""
