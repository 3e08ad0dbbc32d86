"""How good is it? Evaluation and measuring, through the library's front door only."""
