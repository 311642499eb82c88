"""``polyseme methods``: the catalog."""

from __future__ import annotations

import click

from polyseme.catalog import COMPOSED, METHODS
from polyseme.cli.tables import json_option, print_json, print_table


@click.command()
@json_option
def methods(as_json: bool) -> None:
    """List the methods, and the models that are composed of others."""
    rows = (*METHODS, *COMPOSED)
    if as_json:
        print_json([row._asdict() for row in rows])
    else:
        print_table(
            ("method", "名称", "kind", "learns from", "year", "paper"),
            [(row.name, row.chinese, row.kind, " ".join(row.learns_from), str(row.year), row.paper) for row in rows],
        )
