"""Runs notebooks and stores their outputs: `python notebooks/execute.py [--quick] [--output-dir DIR] [FILE ...]`.

By default every notebook of this folder, in place. With `--quick` on less data and for fewer epochs, as the
tests do. Messages on standard error are left out of what is stored.
"""

import argparse
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def execute(path):
    """The executed notebook. Raises `nbclient.exceptions.CellExecutionError` at the first error."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.outputs = join(cell.outputs)
            cell.metadata.pop("execution", None)  # times of day
    return notebook


def join(outputs):
    """Lines that were printed one after the other as one output."""
    joined = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    parser.add_argument("--output-dir", type=Path, help="default: in place")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        os.environ["COMET_KERAS_QUICK"] = "1"
    for path in arguments.files:
        print(path, flush=True)
        notebook = execute(path)
        nbformat.write(notebook, (arguments.output_dir or path.parent) / path.name)


if __name__ == "__main__":
    main()
