"""``lcc-admin config``: what can be configured, and samples to start from."""

from __future__ import annotations

from importlib.resources import files

import click

from lcc.config import describe_defaults

SAMPLES = (
    "lcc.toml",
    "lcc.service",
    "lcc-role@.service",
    "lcc-uns.socket",
    "lccwatch@.service",
    "grafana-lcc.json",
    "prometheus-alerts.yml",
)


@click.command("config")
@click.option("--defaults", is_flag=True, help="Print every setting with its meaning, unit, bounds and default.")
@click.option(
    "--sample",
    type=click.Choice(SAMPLES),
    metavar="NAME",
    help=f"Print a sample configuration, systemd unit, Grafana dashboard or Prometheus alerts: {', '.join(SAMPLES)}.",
)
def config_command(defaults: bool, sample: str | None) -> None:
    """Print all settings of lcc.toml, or a sample file."""
    if defaults == (sample is not None):
        raise click.UsageError("give --defaults or --sample NAME")
    click.echo(describe_defaults() if sample is None else read_sample(sample), nl=False)


def read_sample(name: str) -> str:
    """The text of a sample file that comes with the LCC."""
    return files("lcc.admin.setup").joinpath("samples", name).read_text(encoding="utf-8")
