"""The page: what a browser shows of a library, rendered here and working without JavaScript."""
