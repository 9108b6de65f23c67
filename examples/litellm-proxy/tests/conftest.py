pytest_plugins = ["zae_limiter_cli.testing"]
