"""The same checkpoint in more than one place: moving parts between them, whole or not at all. See docs/tiers.md."""
