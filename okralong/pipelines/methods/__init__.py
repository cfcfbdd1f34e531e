"""The methods: okralong and the baselines, one file each, over the same tools."""
