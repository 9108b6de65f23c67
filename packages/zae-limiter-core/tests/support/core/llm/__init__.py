"""A provider of language models, and LiteLLM's proxy before it."""
