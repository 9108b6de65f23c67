"""Operations: one request to the store as a frozen value, its answer, its errors, and their DynamoDB form."""
