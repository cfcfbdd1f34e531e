"""Reading documents in a process of its own: what a file makes a parser do ends with that process."""
