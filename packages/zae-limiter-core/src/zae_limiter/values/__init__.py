"""The public values, checked where they are made."""
