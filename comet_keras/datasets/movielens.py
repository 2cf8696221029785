"""MovieLens: does a user watch a movie, and how does the user rate it?"""

import numpy as np

from comet_keras.datasets import movielens_pairs, movielens_ratings, movielens_tfds
from comet_keras.datasets import negatives as samplers
from comet_keras.datasets.recommender import make_dataset, make_split
from comet_keras.datasets.registry import DATASETS
from comet_keras.validation import non_negative_int, one_of, positive_int

SAMPLERS = {"per_user": samplers.per_user, "uniform": samplers.uniform}
DEFAULT_ROWS = 200_000  # the paper's ablation, section 4, trains on as many


def movielens(data_dir=None, rows=None, negatives="per_user", seed=0):
    """Two tasks on MovieLens: a watch flag for every pair, a rating for the watched ones.

    Source: COMET (KDD 2023), Supplement S1.1; data by Harper and Konstan (2015),
    https://grouplens.org/datasets/movielens, which does not allow the data to
    be passed on.

    `data_dir` may hold any of these, plain or gzipped, tried in this order:

    1. The paper's own pairs, in `data_dir` or `data_dir/comet_split`: folders
       `shared_features`, `watch_classification_targets` and
       `rating_regression_targets` with files `<folder>_{train,val,test}.csv`.
       They are used as they are. If `shared_features_train.csv` is missing
       (its size keeps it out of many copies), **the validation file serves for
       both training and validation**: `rows` of its rows, drawn by a seeded
       shuffle, are the training rows and the remaining ones the validation
       rows. The test rows are the whole test file in either case.
    2. A ratings file of a MovieLens release: `ratings.dat` or one
       `ratings*.dat` (ML-1M or a part of it; also in `data_dir/ml-1m`),
       `u.data` (ML-100K; also in `data_dir/ml-100k`), or `ratings.csv` (newer
       releases). Unwatched pairs are then drawn as `negatives` says, and all
       pairs are split 90/10 into the rest and test, the rest 87.5/12.5 into
       training and validation, both stratified by watched. Ids are lowered to
       start at 0; ids that would leave more than half of their range unused
       (the movies of newer releases) are renumbered, the i-th smallest as i.

    Without `data_dir` the ratings of ML-1M come from tensorflow-datasets, which
    downloads them, and are treated like those of a ratings file, ordered by user
    and movie.

    Args:
        data_dir: folder, str or path. Defaults to tensorflow-datasets
            (`movielens/1m-ratings`), which has to be installed. A folder in which
            that has prepared them before does as well.
        rows: int, number of training rows, drawn at random. Defaults to all of
            them, or, where the validation file has to serve for training too,
            to 200,000 (nine tenths of the file if it is shorter).
        negatives: for ratings files. `"per_user"`: each user gets as many
            unwatched movies as watched ones (all unwatched ones if there are
            fewer), uniform without replacement over the movies that occur. The
            paper's pairs fit this: its 999,287 unwatched pairs are the
            1,000,209 watched ones less the 922 that the one user with more
            watched than unwatched movies falls short. `"uniform"`: as many
            pairs as there are watched ones, uniform over all unwatched pairs.
        seed: int, decides draws, shuffles and splits.

    Returns:
        `Dataset` with features `{"user": int32 (N,), "movie": int32 (N,)}`,
        targets `{"watch": float32 (N,), "rating": float32 (N,)}` (rating 0
        where unwatched) and sample weights `{"watch": ones, "rating": watched
        as 0 or 1}`, float32 `(N,)`: a rating counts where the movie was watched.

    Raises:
        FileNotFoundError: if none of the files is there, or tensorflow-datasets
            cannot help; says what was looked for and what to download.
        ValueError: if a file is empty, cut off or malformed (naming file and
            line), if files of one split differ in length, or if `rows` is too large.

    Example:

    >>> import pathlib, tempfile
    >>> from comet_keras.datasets import movielens
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> lines = [f"{user}::{movie}::4::978300760" for user in range(1, 21) for movie in range(1 + user % 2, 11, 2)]
    >>> _ = (folder / "ratings.dat").write_text("\\n".join(lines))
    >>> data = movielens(folder)
    >>> len(data.train), data.vocabulary_sizes
    (157, {'user': 20, 'movie': 10})
    """
    one_of("negatives", negatives, tuple(SAMPLERS))
    rows = rows if rows is None else positive_int("rows", rows)
    generator = np.random.default_rng(non_negative_int("seed", seed))
    kind, path = (None, None) if data_dir is None else _find_source(DATASETS["movielens"].require(data_dir))
    if kind == "pairs":
        return _from_pairs(path, rows, generator)
    if kind == "ratings":
        return _from_ratings(path.name, movielens_ratings.read_ratings(path), rows, negatives, seed, generator)
    return _from_ratings(
        movielens_tfds.NAME, movielens_tfds.read_ratings(data_dir), rows, negatives, seed, generator
    )


def _find_source(data_dir):
    searches = [
        *(("pairs", movielens_pairs.find_pairs, data_dir / name) for name in ("", "comet_split")),
        *(("ratings", movielens_ratings.find_ratings, data_dir / name) for name in ("", "ml-1m", "ml-100k")),
    ]
    for kind, find, folder in searches:
        found = find(folder)
        if found is not None:
            return kind, found
    return None, None


def _from_pairs(folder, rows, generator):
    test = _split(*movielens_pairs.read_pairs(folder, "test"))
    validation = _split(*movielens_pairs.read_pairs(folder, "val"))
    if movielens_pairs.has_train_pairs(folder):
        train = _draw(_split(*movielens_pairs.read_pairs(folder, "train")), rows, generator)
        description = "The COMET paper's own pairs and splits of ML-1M."
    else:
        total = len(validation)
        rows = min(DEFAULT_ROWS, total * 9 // 10) if rows is None else rows
        if rows >= total:
            raise ValueError(
                f"`rows` must be below {total}: shared_features_train.csv is missing, so training and validation "
                f"rows both come from the validation file. Received: rows={rows}"
            )
        order = generator.permutation(total)
        train, validation = validation.take(order[:rows]), validation.take(order[rows:])
        description = (
            f"The COMET paper's own pairs of ML-1M. shared_features_train.csv is missing: {rows} rows of the "
            f"paper's validation file are the training rows, its other {total - rows} the validation rows; "
            "the test rows are the paper's."
        )
    sizes = (movielens_pairs.NUM_USERS, movielens_pairs.NUM_MOVIES)
    return make_dataset("movielens", (train, validation, test), sizes, description)


def _from_ratings(source, table, rows, negatives, seed, generator):
    users, movies, ratings, *sizes = table
    other_users, other_movies = SAMPLERS[negatives](users, movies, generator)
    watched = np.repeat([1, 0], [len(users), len(other_users)])
    pairs = _split(
        np.concatenate([users, other_users]),
        np.concatenate([movies, other_movies]),
        watched,
        np.concatenate([ratings, np.zeros(len(other_users), "float32")]),
    )
    train, validation, test = (pairs.take(part) for part in _stratified(watched, seed, source))
    description = (
        f"{len(users)} ratings of {source} and {len(other_users)} unwatched pairs (negatives={negatives!r}, "
        f"seed={seed}), split 90/10 and 87.5/12.5, stratified by watched."
    )
    return make_dataset("movielens", (_draw(train, rows, generator), validation, test), sizes, description)


def _stratified(watched, seed, source):
    from sklearn.model_selection import train_test_split

    everything = np.arange(len(watched))
    try:
        rest, test = train_test_split(everything, test_size=0.1, stratify=watched, random_state=seed)
        train, validation = train_test_split(rest, test_size=0.125, stratify=watched[rest], random_state=seed)
    except ValueError as error:
        raise ValueError(
            f"{source} has too few ratings to split: {watched.sum()} watched pairs, "
            f"{len(watched) - watched.sum()} unwatched ones"
        ) from error
    return train, validation, test


def _draw(split, rows, generator):
    if rows is None:
        return split
    if rows > len(split):
        raise ValueError(f"`rows` must be at most {len(split)}, the number of training rows. Received: rows={rows}")
    return split.take(generator.permutation(len(split))[:rows])


def _split(users, movies, watched, ratings):
    return make_split("movie", "watch", users, movies, watched, ratings)
