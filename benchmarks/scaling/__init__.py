"""What an archive costs as it grows: unit costs, growth, placement on a cluster, and the arithmetic of a night."""
