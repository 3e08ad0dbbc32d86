"""The page's addresses: who gets in, what every answer says beside its text, and what other sites cannot do."""
