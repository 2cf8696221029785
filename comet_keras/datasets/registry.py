"""The data sets by name: what they are, where they come from, and how they are loaded."""

import importlib
from dataclasses import dataclass
from pathlib import Path

from comet_keras.validation import one_of, positive_int


@dataclass(frozen=True)
class DatasetInfo:
    """What there is to know about a data set before it is loaded.

    Attributes:
        name: str; also the function of `module` that loads it.
        module: str, the module of `comet_keras.datasets` with that function.
        title: str.
        tasks: dict from task to what it asks.
        source: str, who made it and where it is described.
        licence: str, on which terms.
        paper_rows: dict from split to its size in the COMET paper, or None where the paper lacks the
            data set.
        paper_note: str, where those sizes are not exactly what is loaded from the whole original.
        files: tuple of str, what `data_dir` may hold, the first found being used; empty if the data
            set is made from what a Python package brings along.
        download: str, where the files can be had.
        tfds: tuple of str, the data sets of tensorflow-datasets that serve without `data_dir`.
        ids: bool, whether the features are ids of users and items.

    Example:

    >>> from comet_keras.datasets import DATASETS
    >>> DATASETS["jester"].paper_rows["validation"], DATASETS["jester"].needs_data_dir
    (1100000, True)
    """

    name: str
    module: str
    title: str
    tasks: dict
    source: str
    licence: str
    paper_rows: dict | None
    paper_note: str = ""
    files: tuple = ()
    download: str = ""
    tfds: tuple = ()
    ids: bool = False

    @property
    def needs_data_dir(self):
        """Whether it cannot be loaded without a folder of files."""
        return bool(self.files) and not self.tfds

    @property
    def advice(self):
        """str, what to download and where to put it."""
        text = f"Download it from {self.download} into a folder and give that as `data_dir`."
        if self.tfds:
            text += (
                " Or install comet_keras[datasets], which lets tensorflow-datasets download it when no `data_dir` "
                "is given."
            )
        return text

    def require(self, data_dir):
        """Returns `data_dir` as a `Path`, or raises FileNotFoundError if it is None or not there."""
        if data_dir is None:
            raise FileNotFoundError(
                f"`data_dir` is missing: {self.title} is read from a folder with {self._looked_for}. {self.advice}"
            )
        path = Path(data_dir)
        if not path.exists():
            raise FileNotFoundError(f"`data_dir` is not a folder. Received: data_dir={str(data_dir)!r}")
        return path

    def nothing_in(self, data_dir):
        """Message for a folder in which none of the files is."""
        return f"No {self.title} data in {str(data_dir)!r}. Looked for {self._looked_for}. {self.advice}"

    @property
    def _looked_for(self):
        return "; else ".join(self.files)

    def load(self, data_dir=None, rows=None, seed=0):
        """Loads the data set from its original files; see `comet_keras.datasets.load`."""
        make = getattr(importlib.import_module(f"comet_keras.datasets.{self.module}"), self.name)
        if self.files:
            return make(data_dir=data_dir, rows=rows, seed=seed)
        if data_dir is not None:
            raise ValueError(f"`data_dir`: {self.name} is read from no files. Received: data_dir={str(data_dir)!r}")
        if rows is None:
            return make(seed=seed)
        held_out = max(1, positive_int("rows", rows) // 5)  # 5 : 1 : 1, as the paper's MultiMNIST and the default
        return make(train_pairs=rows, validation_pairs=held_out, test_pairs=held_out, seed=seed)


def info(name):
    """The `DatasetInfo` of a data set; ValueError lists the names there are."""
    return DATASETS[one_of("name", name, names())]


def names():
    """Tuple of the names of the data sets."""
    return tuple(DATASETS)


_PAIR = {"top_left": "which class is in the top-left corner?", "bottom_right": "which in the bottom-right one?"}
_IDX = (
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, plain or .gz"
)

DATASETS = {
    entry.name: entry
    for entry in (
        DatasetInfo(
            name="movielens",
            module="movielens",
            title="MovieLens",
            tasks={"watch": "does the user watch the movie?", "rating": "how does the user rate it, 1 to 5?"},
            source="GroupLens; Harper and Konstan (2015)",
            licence="research use, no passing on, no commercial use without permission",
            paper_rows={"train": 1_600_000, "validation": 200_000, "test": 200_000},
            paper_note="The paper's own files have 1,574,602, 224,944 and 199,950 rows.",
            files=(
                "the COMET paper's pairs (shared_features/, watch_classification_targets/ and "
                "rating_regression_targets/, here or in comet_split/)",
                "a ratings file, plain or .gz: ratings.dat or one ratings*.dat (here or in ml-1m/), u.data (here or "
                "in ml-100k/), or ratings.csv",
            ),
            download="https://grouplens.org/datasets/movielens/1m/ (ML-1M)",
            tfds=("movielens/1m-ratings",),
            ids=True,
        ),
        DatasetInfo(
            name="jester",
            module="jester",
            title="Jester",
            tasks={"rate": "does the user rate the joke?", "rating": "how does the user rate it, -10 to 10?"},
            source="Ken Goldberg, UC Berkeley; Goldberg, Roeder, Gupta and Perkins (2001)",
            licence="free for research use with citation",
            paper_rows={"train": 5_100_000, "validation": 1_100_000, "test": 1_100_000},
            paper_note="All pairs of 73,421 users and 100 jokes, split 70/15/15: 5,139,470, 1,101,315 and 1,101,315.",
            files=(
                "jester-data-*.csv, .csv.gz or .xls (the original's three matrices, or some of them)",
                "one other jester*.csv, .csv.gz or .xls",
            ),
            download="https://eigentaste.berkeley.edu/dataset (jester-data-1, -2 and -3 of Dataset 1, unpacked)",
            ids=True,
        ),
        DatasetInfo(
            name="books",
            module="books",
            title="Book-Crossing",
            tasks={"read": "does the user read the book?", "rating": "how does the user rate it, 1 to 10?"},
            source="Cai-Nicolas Ziegler; Ziegler, McNee, Konstan and Lausen (2005)",
            licence="free for research use with citation",
            paper_rows={"train": 389_706, "validation": 83_509, "test": 83_509},
            paper_note="From 18,960 users and 31,070 books; whether they were filtered as here is not known.",
            files=("BX-Book-Ratings.csv, plain or .gz",),
            download=(
                "http://www2.informatik.uni-freiburg.de/~cziegler/BX/ (BX-CSV-Dump.zip, unpacked; where that is gone, "
                "from a copy of it)"
            ),
            ids=True,
        ),
        DatasetInfo(
            name="digits",
            module="digits",
            title="Digits (MNIST and SVHN)",
            tasks={"digit": "which digit is it?"},
            source="MNIST: LeCun and Cortes; SVHN: Netzer et al. (2011)",
            licence="MNIST commonly CC BY-SA 3.0; SVHN for non-commercial use",
            paper_rows={"train": 530_420, "validation": 85_000, "test": 85_000},
            files=(
                f"MNIST, here or in mnist/: {_IDX}, or mnist.npz; and SVHN, here or in svhn/: train_32x32.mat, "
                "test_32x32.mat and extra_32x32.mat",
            ),
            download="http://yann.lecun.com/exdb/mnist and http://ufldl.stanford.edu/housenumbers (format 2)",
            tfds=("mnist", "svhn_cropped"),
        ),
        DatasetInfo(
            name="multi_mnist",
            module="multi_mnist",
            title="MultiMNIST",
            tasks=_PAIR,
            source="made from MNIST (LeCun and Cortes) as in Sabour et al. (2017)",
            licence="MNIST commonly CC BY-SA 3.0",
            paper_rows={"train": 100_000, "validation": 20_000, "test": 20_000},
            files=(f"MNIST, here or in mnist/: {_IDX}, or mnist.npz",),
            download="http://yann.lecun.com/exdb/mnist",
            tfds=("mnist",),
        ),
        DatasetInfo(
            name="multi_fashion_mnist",
            module="multi_mnist",
            title="MultiFashionMNIST",
            tasks=_PAIR,
            source="made from Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017) as MultiMNIST from MNIST",
            licence="MIT (Zalando SE)",
            paper_rows={"train": 100_000, "validation": 20_000, "test": 20_000},
            files=(f"Fashion-MNIST, here or in fashion_mnist/: {_IDX}, or fashion_mnist.npz",),
            download="https://github.com/zalandoresearch/fashion-mnist",
            tfds=("fashion_mnist",),
        ),
        DatasetInfo(
            name="celeb_a",
            module="celeb_a",
            title="CelebA",
            tasks={"ten attributes": "does the face have it, such as Smiling?"},
            source="MMLAB, CUHK; Liu et al. (2015)",
            licence="non-commercial research, no passing on",
            paper_rows={"train": 160_000, "validation": 20_000, "test": 20_000},
            paper_note="As published: 162,770, 19,867 and 19,962 images. The paper does not name its attributes.",
            files=(
                "list_attr_celeba.txt and list_eval_partition.txt, plain or .gz, with img_align_celeba/ (here, in "
                "celeba/ or in celeb_a/)",
            ),
            download="http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (aligned and cropped images)",
            tfds=("celeb_a",),
        ),
        DatasetInfo(
            name="multi_digits",
            module="multi_digits",
            title="MultiDigits",
            tasks=_PAIR,
            source="made from scikit-learn's 8 x 8 digits as MultiMNIST from MNIST",
            licence="BSD (scikit-learn), digits of the UCI repository CC BY 4.0",
            paper_rows=None,
            paper_note="10,000, 2,000 and 2,000 pairs unless told otherwise.",
        ),
    )
}
