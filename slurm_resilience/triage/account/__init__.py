"""From events to an account: what happened, where first, what followed, how sure that is, and what to do."""
