"""The blocking store over DynamoDB, and its clients."""
