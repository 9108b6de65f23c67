pytest_plugins = ["zae_limiter.testing.plugin"]
