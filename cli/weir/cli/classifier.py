# SPDX-License-Identifier: Apache-2.0
"""`weir classifier`: trains classifiers of the buffers of BBR flows, and counts how often one is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from weir.cli import completion, options
from weir.cli.errors import InputError
from weir.cli.filled_help import Commands
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.analysis.classifier.examples import Examples
    from weir.analysis.classifier.training import Confusion

app = Commands(
    name="classifier",
    help="Classifiers of buffers by the features of BBR flows, for an experiment's `tuner`: `train` "
    "makes one of a campaign's runs, `judge` counts how often one is right.",
    no_args_is_help=True,
)
LEAST_WINDOWS = 20
"""Windows of each class: a tenth of all is set aside in training, which must hold each class."""
Folders = Annotated[
    list[Path],
    typer.Argument(
        metavar="CAMPAIGN...",
        help="Folders of campaigns, such as runs/bbr-ml.",
        show_default=False,
        autocompletion=completion.campaign_folders,
    ),
]
Axis = Annotated[str, typer.Option("--axis", help="The campaigns' axis whose labels are the classes.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="AXIS=LABEL", help="Runs with this label, or one of LABEL,LABEL; repeatable."
    ),
]


@app.command()
def train(
    campaigns: Folders,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The classifier's file.",
            show_default=False,
            callback=options.writable,
        ),
    ],
    axis: Axis = "buffer",
    only: Only = None,
    inputs: Annotated[
        Literal["absolute", "relative"],
        typer.Option(help="The five features, or their ratios, which do not depend on rate and RTT."),
    ] = "absolute",
    window: Annotated[
        float, typer.Option(min=0.1, max=60, help="Seconds over which features are averaged.")
    ] = 1.0,
    hidden: Annotated[
        str, typer.Option(metavar="N,N…", help="Outputs of the hidden layers; the paper has four of 256.")
    ] = "256,256,256,256",
    folds: Annotated[int, typer.Option(min=2, help="Parts of the runs for the validation.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Of the network's first weights.")] = 1,
    as_json: options.AsJson = False,
) -> int:
    """Train a small network on the BBR flows of campaigns' valid runs, and validate it.

    The accuracy shown is that of runs that were not trained on: each part of the runs in turn is left out
    (10-fold validation). The file then has a network trained on all of them. The same runs and options give
    the same file.

    \b
    weir campaign bbr-ml --only part=gains
    weir classifier train runs/bbr-ml --only part=gains -o mine.json
    """
    from weir.analysis.classifier.training import cross_validated
    from weir.analysis.classifier.training import train as trained
    from weir.rundir.whole_files import write_whole

    layers = _layers(hidden)
    examples = _examples(campaigns, axis, only, window, None)
    _check_enough(examples, axis)
    console = Console(stderr=True)
    with console.status(f"{folds} networks for the validation, and the one to keep"):
        confusion = cross_validated(examples, inputs=inputs, hidden=layers, seed=seed, folds=folds)
        classifier = trained(
            examples,
            campaigns=[path.name for path in campaigns],
            validated=confusion,
            inputs=inputs,
            hidden=layers,
            seed=seed,
        )
    write_whole(output, (classifier.model_dump_json() + "\n").encode())
    return _show(
        confusion,
        f"{output}: trained on {classifier.training.windows} windows of "
        f"{classifier.training.runs} runs; validated on runs left out",
        as_json,
    )


@app.command()
def judge(
    classifier: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Of `weir classifier train`.", show_default=False, callback=options.readable
        ),
    ],
    campaigns: Folders,
    axis: Axis = "buffer",
    only: Only = None,
    as_json: options.AsJson = False,
) -> int:
    """Count how often a classifier is right on the BBR flows of campaigns' valid runs.

    The runs must not be those that it was trained on. Intervals are exact for independent windows; those of
    one run are not quite independent.

    \b
    weir classifier judge experiments/bbr-ml.classifier.json runs/buffer-class
    """
    from weir.analysis.classifier.network import read_classifier
    from weir.analysis.classifier.training import judge as judged

    read = read_classifier(classifier)
    examples = _examples(campaigns, axis, only, read.window_s, read.classes)
    return _show(judged(read, examples), f"{classifier} on {len(examples.labels)} windows", as_json)


def _check_enough(examples: Examples, axis: str) -> None:
    """Raise InputError unless there are classes, each with runs to train on and others to validate by."""
    if len(examples.classes) < 2:
        raise InputError(f"--axis {axis}: runs of {len(examples.classes)} class; valid: runs of at least two")
    for at, label in enumerate(examples.classes):
        runs = examples.runs[examples.labels == at]
        if len(runs) < LEAST_WINDOWS or len(set(runs.tolist())) < 2:
            raise InputError(
                f"--axis {axis}: {plural(len(runs), 'window')} of {plural(len(set(runs.tolist())), 'run')} "
                f"of {label}; valid: at least {LEAST_WINDOWS} windows of two runs for each class"
            )


def _layers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(1 <= width <= 4096 for width in found):
        raise InputError(f"--hidden {text}; valid: widths from 1 to 4096, such as 256,256")
    return found


def _examples(
    folders: list[Path], axis: str, only: list[str] | None, window_s: float, classes: tuple[str, ...] | None
) -> Examples:
    """The windows of the campaigns' valid runs; raises InputError where there is none."""
    from weir.analysis.classifier.examples import examples_of
    from weir.campaign.labelled import labelled_runs

    runs = [run for folder in folders for run in labelled_runs(folder, axis, only or ())]
    found = examples_of(runs, window_s, classes)
    if not len(found.labels):
        valid = "" if classes is None else f" of the classes {', '.join(classes)}"
        names = ", ".join(map(str, folders))
        raise InputError(
            f"{names}: no features of BBR flows{valid}; valid: campaigns with valid runs of BBR flows"
        )
    return found


def _show(confusion: Confusion, title: str, as_json: bool) -> int:
    from weir.analysis.statistics import share

    rows = {label: share(*confusion.right(label)) for label in confusion.classes}
    if as_json:
        classes = {
            label: {"right": one.count, "windows": one.of, "low": one.low, "high": one.high}
            for label, one in rows.items()
        }
        print(
            json.dumps(
                {"accuracy": confusion.accuracy, "classes": classes, "confusion": confusion.counts.tolist()}
            )
        )
        return 0
    console = Console()
    console.print(title, highlight=False, markup=False, soft_wrap=True)
    table = Table()
    for heading in ("class", "windows", "named right", "95 % interval", "most often named"):
        table.add_column(heading)
    for at, (label, one) in enumerate(rows.items()):
        if one.rate is None:
            table.add_row(label, "0", "–", "–", "–")
            continue
        most = confusion.classes[int(confusion.counts[at].argmax())]
        table.add_row(
            *(label, str(one.of), f"{100 * one.rate:.1f} %"),
            *(f"{100 * one.low:.1f} to {100 * one.high:.1f} %", most),
        )
    console.print(table)
    console.print(f"all: {100 * confusion.accuracy:.1f} %", highlight=False)
    return 0
