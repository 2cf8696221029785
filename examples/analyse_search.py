"""What a set of searches says: the best trials, how many trials a gate needs, and the figure of the paper.

    python examples/analyse_search.py [FOLDER ...]

FOLDERs are those of searches of one task, one a gate. By default four searches of sixteen trials each on the
packaged `multi_digits` data, which `comet-keras search --task multi_digits --gate GATE --trials 16 --epochs 8
--rows 2000 --output-dir examples/searches/GATE` made. From a shell: `comet-keras report trials|bootstrap FOLDER ...`
"""

import argparse
from pathlib import Path

from comet_keras.reports import (
    bootstrap_curves,
    bootstrap_table,
    read_comparable_searches,
    reduction_table,
    render_table,
    save_figure,
    trials_table,
)

SEARCHES = Path(__file__).parent / "searches"
# Of few trials the best 5% are one; a quarter of sixteen gives a spread.
FRACTION = 0.25


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=sorted(SEARCHES.iterdir()))
    parser.add_argument("--output-dir", type=Path, default=Path("runs/analysis"))
    arguments = parser.parse_args(argv)
    records = read_comparable_searches(arguments.folders)

    print(render_table(trials_table(records, FRACTION)), "\n")
    table, curves = bootstrap_table(records)
    print(render_table(table), "\n")
    reductions = reduction_table(records)
    if reductions is not None:
        print("Tuning reduction.", render_table(reductions), "\n")

    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    title = next(iter(records.values())).title
    print("Drew", save_figure(bootstrap_curves({title: curves}), arguments.output_dir / "bootstrap.png"))
    return records


if __name__ == "__main__":
    main()
