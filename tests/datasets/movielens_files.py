"""Small files in the formats of MovieLens, for its tests."""

import gzip

FOLDERS = ("shared_features", "watch_classification_targets", "rating_regression_targets")


def write(path, lines, newline="\n", end="\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (newline.join(lines) + end).encode("latin-1")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_pairs(folder, split, rows, suffix=".csv"):
    """Writes (user, movie, watched, rating) rows in the layout of the COMET repository."""
    columns = ([f"{u},{m}" for u, m, _, _ in rows], [str(w) for _, _, w, _ in rows], [str(r) for _, _, _, r in rows])
    for name, lines in zip(FOLDERS, columns):
        write(folder / name / f"{name}_{split}{suffix}", lines)


def pair_rows(start, count):
    """Distinct pairs; every second one watched, with ratings 1..5."""
    return [(start + i, i % 7, i % 2, 1 + i % 5 if i % 2 else 0) for i in range(count)]


def rows_of(split):
    columns = (split.features["user"], split.features["movie"], split.targets["watch"], split.targets["rating"])
    return list(zip(*(column.tolist() for column in columns)))


def rating_lines(users=12, movies=9):
    """ML-1M lines; user u has rated about half of the movies."""
    return [
        f"{user}::{movie}::{1 + (user + movie) % 5}::978300760"
        for user in range(1, users + 1)
        for movie in range(1, movies + 1)
        if (user * 7 + movie * 3) % 5 < 2
    ]


def all_rows(data):
    return sum((rows_of(split) for split in data.splits.values()), [])
