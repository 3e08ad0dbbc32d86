"""Who is asking over HTTP? One address for several clients, and what each of them may see."""
