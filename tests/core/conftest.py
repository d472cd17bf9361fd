"""Pure code is judged by its answers: a busy machine must not fail it for its speed."""

from hypothesis import settings

settings.register_profile("core", deadline=None)
settings.load_profile("core")
