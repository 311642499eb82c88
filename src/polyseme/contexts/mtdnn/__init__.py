"""MT-DNN: one Transformer below the heads of several tasks."""
