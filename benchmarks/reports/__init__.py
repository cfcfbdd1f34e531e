"""Real reports and papers: their questions prepared, the runs over them scored."""
