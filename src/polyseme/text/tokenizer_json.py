"""Checks of a tokenizer.json before the library ``tokenizers`` reads it.

A Python program cannot handle a panic of that library as an error: some of them end the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def check_tokenizer(content: bytes) -> None:
    """A ValueError if the content is not JSON, or if the library would panic on it."""
    record = json.loads(content)
    if isinstance(record, dict):
        _check_merges(record.get("model"))
        for template in _templates(record.get("post_processor")):
            _check_template(template)


def _check_merges(model: Any) -> None:
    """With a prefix of subwords inside words, the second of two that are merged has it, and loses it."""
    if not isinstance(model, dict):
        return
    prefix, merges = model.get("continuing_subword_prefix"), model.get("merges")
    if not (isinstance(prefix, str) and isinstance(merges, list)):
        return
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        second = parts[-1] if isinstance(parts, list) and parts else None
        if isinstance(second, str) and not second.startswith(prefix):
            raise ValueError(f"it merges {second[:40]!r}, which does not begin with {prefix[:40]!r}")


def _templates(processor: Any) -> Iterator[dict[str, Any]]:
    """The templates in a post-processor, which may be a sequence of others."""
    if not isinstance(processor, dict):
        return
    if processor.get("type") == "TemplateProcessing":
        yield processor
    inner = processor.get("processors")
    for one in inner if isinstance(inner, list) else []:
        yield from _templates(one)


def _check_template(template: dict[str, Any]) -> None:
    """The special tokens of a template have ids."""
    known = template.get("special_tokens")
    for form in ("single", "pair"):
        pieces = template.get(form)
        for piece in pieces if isinstance(pieces, list) else []:
            token = piece.get("SpecialToken") if isinstance(piece, dict) else None
            name = token.get("id") if isinstance(token, dict) else None
            if isinstance(name, str) and isinstance(known, dict) and name not in known:
                raise ValueError(f"its template has a special token {name[:40]!r} without an id")
