"""What all tests share."""

from hypothesis import settings

# The same examples in every run, however long one takes.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
