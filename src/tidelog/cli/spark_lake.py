"""placeholder until the lake arrives."""

import typer

app = typer.Typer()
