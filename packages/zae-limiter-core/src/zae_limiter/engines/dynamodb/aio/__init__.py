"""The async store over DynamoDB, and its clients."""
