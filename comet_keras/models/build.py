"""The paper's model of a task, in the sizes of a data set."""

from comet_keras.models.books import books
from comet_keras.models.celeb_a import celeb_a
from comet_keras.models.digits import digits
from comet_keras.models.jester import jester
from comet_keras.models.movielens import movielens
from comet_keras.models.multi_digits import multi_digits
from comet_keras.models.multi_mnist import multi_fashion_mnist, multi_mnist
from comet_keras.models.settings import TASKS
from comet_keras.validation import one_of

RECOMMENDERS = {"movielens": movielens, "books": books, "jester": jester}
IMAGES = {
    "digits": digits,
    "multi_mnist": multi_mnist,
    "multi_fashion_mnist": multi_fashion_mnist,
    "multi_digits": multi_digits,
}


def build(task, dataset, seed=0, **options):
    """The paper's model of a task, with the vocabulary sizes, image shape and classes of a data set.

    Args:
        task: str, one of `comet_keras.models.settings.TASKS`.
        dataset: `comet_keras.datasets.Dataset` of the task.
        seed: int, of the hash table; without effect for images. Default 0. All else draws by
            `keras.utils.set_random_seed`.
        **options: `gate`, `num_experts`, `k`, `gamma`, `entropy_weight`, `zeta`, `permutation_start` and
            whatever else the task's own function takes, whose defaults hold.

    Returns:
        A functional `keras.Model`, uncompiled.

    Raises:
        ValueError: if there is no such task, or an option does not fit.

    Example:

    >>> from comet_keras import datasets, models
    >>> data = datasets.multi_digits(train_pairs=64, validation_pairs=32, test_pairs=32, shift=8)
    >>> models.build("multi_digits", data, gate="topk").input["image"].shape
    (None, 16, 16, 1)
    """
    one_of("task", task, TASKS)
    if task in RECOMMENDERS:
        return RECOMMENDERS[task](*dataset.vocabulary_sizes.values(), seed=seed, **options)
    shape = dataset.train.input_shapes["image"]
    if task == "celeb_a":
        return celeb_a(shape, tuple(dataset.tasks), **options)
    return IMAGES[task](shape, dataset.num_classes, **options)
