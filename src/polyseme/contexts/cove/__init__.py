"""CoVe: a translation model whose encoder gives words their vectors in context."""
