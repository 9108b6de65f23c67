"""How Hypothesis runs the manifest's tests."""

from hypothesis import settings

settings.register_profile("zae", deadline=None)  # how long a case takes says nothing on a busy computer
settings.load_profile("zae")
