"""The model card: what a model is, how it was made, how to use it. Written into every model folder as README.md."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from polyseme.catalog import Row

_CALLS = {
    "words": 'wv = polyseme.load("{path}")\nwv.most_similar("word", topn=10)',
    "contexts": 'encoder = polyseme.load("{path}")\nfor sentence in encoder.encode_tokens(["A sentence."]):\n'
    "    sentence.tokens, sentence.layers.shape",
    "sentences": 'encoder = polyseme.load("{path}")\nencoder.encode(["A text."])',
    "tasks": 'model = polyseme.load("{path}")\nmodel.predict(["A text."])',
}


def model_card(row: Row, options: Any, manifest: dict[str, Any], made_of: Mapping[str, str]) -> str:
    """The card in Markdown; ``made_of`` maps the folders of inner models to their methods."""
    facts = "\n".join(f"- {name}: {_plain(value)}" for name, value in manifest["corpus"].items())
    rows = "\n".join(
        f"| {f.name} | {_plain(getattr(options, f.name))} | {f.metadata.get('help', '')} |"
        for f in dataclasses.fields(options)
    )
    listed = "".join(f"- [{name}]({name}/README.md): {method}\n" for name, method in made_of.items())
    below = f"## Made of\n\n{listed}\n" if listed else ""
    call = _CALLS[row.kind].format(path="path/to/this/folder")
    return (
        f"# {row.name} {row.chinese}\n\n{row.paper} ({row.year})\n\n"
        f"## Use\n\n```python\nimport polyseme\n\n{call}\n```\n\n"
        f"## Text\n\n{facts or '- not known'}\n- segmentation: {_plain(manifest['segmentation'])}\n\n"
        f"{below}"
        f"## Options\n\n| option | value | meaning |\n|---|---|---|\n{rows}\n"
    )


def _plain(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    )
