"""The methods: okralong and the baselines. Each is one file, and all use the same tools."""
