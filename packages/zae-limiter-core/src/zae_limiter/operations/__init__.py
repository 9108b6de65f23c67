"""Operations: one request to a store as a frozen value, its answer, its errors, its size."""
