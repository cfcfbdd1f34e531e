"""What a run will cost, before anything is spent: prompts that can be counted, replies that can only be guessed."""
