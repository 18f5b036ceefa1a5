"""Everything that touches the world: models and tools."""
