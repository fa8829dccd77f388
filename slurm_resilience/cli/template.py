"""`slurm-resilience template [NAME]`: the batch scripts of sbatch_templates/, from an installed package too."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

FOLDER = "sbatch_templates"
SUFFIX = ".sbatch"


def templates() -> dict[str, str]:
    """Every template's text by its name, as shipped."""
    folder = resources.files("slurm_resilience") / FOLDER
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    return {name.removesuffix(SUFFIX): (folder / name).read_text("utf-8") for name in names}


def purpose(text: str) -> str:
    """The template's first comment after the shebang and the #SBATCH lines: one sentence on what it is for."""
    for line in text.splitlines()[1:]:
        if line.startswith("# "):
            return line.removeprefix("# ")
    return ""


def _names(begun: str) -> list[str]:
    return [name for name in [*templates(), "explain"] if name.startswith(begun)]


@click.command()
@click.argument("name", required=False, shell_complete=lambda _, __, begun: _names(begun))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write to this file, which must not exist yet, instead of printing.",
)
def template(name: str | None, output: Path | None) -> None:
    """Print the batch script NAME, or list the scripts there are.

    A template is the shortest script that is right: change the resources and the last line to yours, and submit it
    with sbatch. Each line is explained in sbatch_templates/README.md; `slurm-resilience template explain` prints that.

    \b
        slurm-resilience template
        slurm-resilience template preemptible --output train.sbatch
        sbatch train.sbatch
    """
    texts = templates()
    if name is None:
        if output is not None:
            raise click.UsageError("--output needs the NAME of a template")
        width = max(len(known) for known in texts)
        for known, text in texts.items():
            click.echo(f"{known:{width}}  {purpose(text)}")
        return
    if name == "explain":
        text = (resources.files("slurm_resilience") / FOLDER / "README.md").read_text("utf-8")
    elif name in texts:
        text = texts[name]
    else:
        raise click.BadParameter(f"there is no template {name!r}: there are {', '.join(texts)}", param_hint="NAME")
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:  # never over a script that somebody has adapted
            file.write(text)
    except FileExistsError:
        raise click.ClickException(f"{output} exists already, and is left as it is") from None
    except OSError as error:
        raise click.ClickException(f"{output} can't be written: {error.strerror}") from error
    click.echo(f"written to {output}", err=True)
