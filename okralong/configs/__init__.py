"""The YAML configs that come with the package."""
