"""What a run needs before it starts (config, questions, checks), and what it would cost."""
