"""A table in memory, with DynamoDB's rules for conditions, transactions, sizes and capacity."""
