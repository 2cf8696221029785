import pytest

from comet_keras.tuning.objectives import check_objective, make_objective


@pytest.mark.parametrize(
    "name, direction",
    [
        ("val_loss", "min"),
        ("val_watch_loss", "min"),
        ("val_rating_mse", "min"),
        ("val_b_AUC".lower(), "max"),
        ("val_auc_1", "max"),
        ("val_top_left_accuracy", "max"),
        ("val_sparse_categorical_accuracy", "max"),
        ("val_mean_absolute_error", "min"),
        ("val_binary_crossentropy", "min"),
        ("val_f1_score", "max"),
    ],
)
def test_direction_follows_from_the_name(name, direction):
    objective = make_objective(name)
    assert (objective.name, objective.direction) == (name, direction)


def test_direction_can_be_given():
    assert make_objective(("val_gain", "max")).direction == "max"
    assert make_objective(make_objective("val_auc")) == make_objective("val_auc")


@pytest.mark.parametrize("objective", ["val_gain", "val_unclear", ("val_gain", "up"), 3, ("val_loss",)])
def test_what_has_no_direction_is_refused(objective):
    with pytest.raises(ValueError, match="max"):
        make_objective(objective)


def test_names_are_listed():
    with pytest.raises(ValueError, match="val_a_auc, val_b_auc, val_loss.*'val_auc'"):
        check_objective("val_auc", ["val_loss", "val_b_auc", "val_a_auc"])
