"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("no hurry", deadline=None)  # a machine may be busy, or have to compile first
settings.load_profile("no hurry")
