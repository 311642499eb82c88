"""MT-DNN: one Transformer shared by the heads of several tasks."""
