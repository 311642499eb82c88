"""Model folders, checkpoints and the field's published formats."""
