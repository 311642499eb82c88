"""CoVe: contextual word vectors from the encoder of a translation model."""
