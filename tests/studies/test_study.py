"""Studies as values: from rows to runs, the paper's settings, and mistakes in one line."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from tiny_sets import write_cifar_binary

from shieldwall import recipes
from shieldwall.errors import UserError
from shieldwall.results import paper
from shieldwall.runs.certify import certify_run
from shieldwall.runs.train import train_run
from shieldwall.studies import study
from shieldwall.studies.steps import Places
from shieldwall.studies.study import Study

LABELS = set(study.names())
TRAINED_FIGURES = {
    *("fig:maincurve", "fig:mnist_plots", "fig:mnist_advplots", "fig:mnist_rho", "fig:roc"),
    *("fig:cifar_plots", "fig:cifar_advplots"),
}


def written(folder: Path, content: object) -> str:
    path = folder / "mine.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return str(path)


def built(folder: Path, **content: object) -> Study:
    return study.get(written(folder, content))


def settings(mine: Study) -> list[tuple[object, ...]]:
    return [(run.row, run.recipe.sigma, run.recipe.members, run.values.get("rho")) for run in mine.runs]


def test_rows_and_what_varies_give_runs(tmp_path: Path) -> None:
    mine = built(
        tmp_path,
        sigma=[0.5, 1.0],
        members=[3, 4],
        **{"certification.every": {1.0: 10, 0.5: 20}},
        rows={
            "gaussian": {"recipe": "mnist-short-gaussian"},
            "drt": {
                "recipe": "mnist-short-drt",
                "from": "gaussian",
                "rho": {0.5: [[5, 0.5], [5, 5]], 1.0: [1, 2]},
            },
        },
    )
    assert settings(mine) == [
        *(("gaussian", 0.5, 3, None), ("gaussian", 0.5, 4, None)),
        *(("gaussian", 1.0, 3, None), ("gaussian", 1.0, 4, None)),
        *(("drt", 0.5, 3, (5.0, 0.5)), ("drt", 0.5, 3, (5.0, 5.0))),
        *(("drt", 0.5, 4, (5.0, 0.5)), ("drt", 0.5, 4, (5.0, 5.0))),
        *(("drt", 1.0, 3, (1.0, 2.0)), ("drt", 1.0, 4, (1.0, 2.0))),
    ]
    for run in mine.runs[4:]:
        assert run.start is not None
        ours, theirs = run.recipe, run.start.recipe
        assert (ours.sigma, ours.members) == (theirs.sigma, theirs.members)
        assert (ours.objective["rho_gd"], ours.objective["rho_cm"]) == run.values["rho"]
        assert ours.certification.every == {1.0: 10, 0.5: 20}[ours.sigma]
    assert len({run.folder for run in mine.runs}) == len(mine.runs)


def test_a_base_is_made_once_whoever_needs_it(tmp_path: Path) -> None:
    first, second = (study.get(name) for name in ("tab:bigtablemnist1.00", "tab:gdlvscml3"))
    folders = [{run.folder for run in each.runs if run.recipe.sigma == 1.0} for each in (first, second)]
    assert any(folder.startswith("mnist-gaussian-1.0-") for folder in folders[0] & folders[1])
    names = [run.folder for run in first.runs]
    assert len(set(names)) == len(names) == 16
    drt = [run for run in first.runs if run.row == "drt"]
    assert len({run.start.folder for run in drt if run.start}) == 1


def test_the_key_is_of_what_trains_the_members(tmp_path: Path) -> None:
    def key(**changes: object) -> str:
        return built(tmp_path, rows={"a": {"recipe": "mnist-gaussian", **changes}}).runs[0].key

    assert key() == key(**{"certification.n": 50}) == key(summary="x", **{"schedule.lr": 0.01})
    assert len({key(), key(seed=1), key(members=4), key(**{"objective.num_noise": 4}), key(sigma=0.25)}) == 5


def test_every_table_and_figure_with_trained_networks_has_a_study() -> None:
    assert {row.table for row in paper.rows()} | TRAINED_FIGURES <= LABELS


@pytest.mark.parametrize("name", sorted(LABELS))
def test_every_published_row_is_a_vote_of_some_run(name: str) -> None:
    known = study.get(name)
    assert known.summary
    for row in paper.rows(name):
        votes = {"single": "member-1", "ae": "we", "mme/we": "mme", "mme": "mme", "we": "we"}
        vote = votes[row.protocol]
        if row.method == "sween":
            vote = "we-sween"
        if row.table.startswith("tab:learn-weights") and row.protocol == "we":
            vote = "we-grid"
        runs = [run for run in known.shown if paper.is_of(row, run.recipe, vote)]
        assert runs, row
        assert all(vote.removeprefix("we-") in run.tune for run in runs if "-" in vote and vote[:3] == "we-")
        if row.rho:
            assert len(runs) == 1


def test_the_paper_s_93_settings_of_drt_are_all_there() -> None:
    runs = {
        run.key: run
        for name in LABELS
        if not name.startswith(("mnist-short", "cifar10-small"))
        for run in study.get(name).runs
        if "rho" in run.values
    }
    assert len(runs) == 93


def test_rows_and_sigmas_are_chosen_with_what_they_start_from() -> None:
    few = study.get("tab:mnisttable", only="drt*", sigmas=[1.0])
    assert {run.row for run in few.shown} == {"drt", "drt-smoothadv"}
    assert {run.row for run in few.runs} == {"gaussian", "smoothadv", "drt", "drt-smoothadv"}
    assert {run.recipe.sigma for run in few.runs} == {1.0}


def test_a_scale_makes_everything_smaller_and_says_so() -> None:
    full, tenth, tiny = (study.get("tab:mnisttable", scale=scale) for scale in (1.0, "0.1", "tiny"))
    assert len(tenth.runs) == len(full.runs) > len(tiny.runs) == 18
    for before, after in zip(full.runs, tenth.runs, strict=True):
        assert after.recipe.schedule.epochs == before.recipe.schedule.epochs // 10
        assert after.recipe.certification.every == 100
        assert after.recipe.certification.n == 10_000
        assert "scale-0.1" in after.recipe.name
        assert after.key != before.key
    assert "scale 0.01" in tiny.title
    assert [each.command.rpartition("table")[2] for each in (full, tenth, tiny)] == [
        "",
        " --scale 0.1",
        " --scale tiny",
    ]
    assert "scale" not in full.title


def test_a_study_like_another(tmp_path: Path) -> None:
    mine = study.get(written(tmp_path, "like: tab:mnisttable\nonly: [gaussian]\nmembers: 5\nsigma: 1.0\n"))
    (run,) = mine.runs
    assert (run.recipe.members, run.recipe.sigma, run.recipe.holdout_every) == (5, 1.0, 20)
    assert run.tune == ("sween",)


def test_a_study_from_run_folders_and_a_recipe_file(tmp_path: Path) -> None:
    """Runs that start from other members are other runs, wherever these lie."""
    smoke = recipes.get("smoke")
    (tmp_path / "own.yaml").write_text(smoke.to_yaml())
    for name, recipe in (("a", smoke), ("b", replace(smoke, seed=1)), ("c", smoke)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.yaml").write_text(recipe.to_yaml())
    rows = {name: {"recipe": str(tmp_path / "own.yaml"), "from": str(tmp_path / name)} for name in "abc"}
    mine = built(tmp_path, rows=rows)
    assert [(run.row, run.recipe.init_from) for run in mine.runs] == [
        (name, str(tmp_path / name)) for name in "cb"
    ]
    (pretrained,) = built(tmp_path, rows={"a": {"recipe": "digits-drt", "from": "digits-gaussian-0.25"}}).runs
    assert pretrained.recipe.init_from == "digits-gaussian-0.25"
    with pytest.raises(
        UserError, match="row a: cannot start from nowhere: it is neither a row nor a run folder"
    ):
        built(tmp_path, rows={"a": {"recipe": "smoke", "from": "nowhere"}})


def test_a_row_starts_from_several_run_folders(tmp_path: Path) -> None:
    """The run that training makes, with the recipes of both in start.yaml, is the run of the study."""
    single = replace(recipes.get("smoke"), members=1)
    (tmp_path / "own.yaml").write_text(replace(single, members=2).to_yaml())
    starts = {name: replace(single, seed=seed) for seed, name in enumerate("ab")}
    for name, recipe in starts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.yaml").write_text(recipe.to_yaml())
    both = [str(tmp_path / name) for name in "ab"]
    row = {"recipe": str(tmp_path / "own.yaml")}
    (listed,) = built(tmp_path, rows={"a": {**row, "from": both}}).runs
    (with_comma,) = built(tmp_path, rows={"a": {**row, "from": ", ".join(both)}}).runs
    (first,) = built(tmp_path, rows={"a": {**row, "from": both[0]}}).runs
    assert listed.recipe.init_from == ",".join(both)
    assert listed.key == with_comma.key != first.key
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "recipe.yaml").write_text(listed.recipe.to_yaml())
    (tmp_path / "made" / "start.yaml").write_text("---\n".join(r.to_yaml() for r in starts.values()))
    assert Places([tmp_path]).folder(listed) == tmp_path / "made"
    with pytest.raises(UserError, match="cannot start from nowhere"):
        built(tmp_path, rows={"a": {**row, "from": [both[0], "nowhere"]}})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("rows: [", "is not readable YAML"),
        ("- a\n", "is not a study: it must hold keys such as summary and rows"),
        ("summary: x\n", "has no rows"),
        ("rows: {a: {}}\n", "row a: it needs a recipe"),
        ("rows: {a: 3}\n", "row a: it needs a recipe, such as `recipe: mnist-gaussian`; given: 3"),
        ("rows: {a: {recipe: mnist-gaussain}}\n", "did you mean 'mnist-gaussian'"),
        (
            "rows: {a: {recipe: smoke}}\nsigmas: [1]\n",
            "row a: unknown recipe key 'sigmas'; did you mean 'sigma'",
        ),
        ("rows: {a: {recipe: smoke, members: many}}\n", "members must be a whole number"),
        ("rows: {a: {recipe: smoke, from: a}}\n", "row a: it starts from itself"),
        ("rows: {a: {recipe: mnist-drt, rho: [5, 5, 5]}}\n", "rho takes pairs"),
        ("rows: {a: {recipe: smoke}}\nonly: [b]\n", "mine.yaml 'b'; choose from a"),
        ("rows: {a: {recipe: smoke}}\nvotes: 3\n", "study key votes must be a list"),
        ("like: tab:mnistable\n", "did you mean 'tab:mnisttable'"),
    ],
)
def test_mistakes_take_one_line(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(UserError) as mistake:
        study.get(written(tmp_path, content))
    assert said in str(mistake.value)
    assert "\n" not in str(mistake.value)


def test_unknown_names_and_empty_choices() -> None:
    with pytest.raises(UserError, match=r"unknown study 'tab:mnistable'; did you mean 'tab:mnisttable'"):
        study.get("tab:mnistable")
    with pytest.raises(UserError, match=r"the study file nowhere.yaml does not exist"):
        study.get("nowhere.yaml")
    with pytest.raises(UserError, match=r"no row 'x\*'; its rows: gaussian"):
        study.get("tab:mnisttable", only="x*")
    with pytest.raises(UserError, match=r"no run at sigma 0.3"):
        study.get("tab:mnisttable", sigmas=[0.3])
    for scale in ("0", "2", "small"):
        with pytest.raises(UserError, match=r"--scale takes a number above 0 and at most 1, or `tiny`"):
            study.get("tab:mnisttable", scale=scale)


CIFAR10 = """\
like: .cifar10
summary: smoke
sigma: 0.5
members: 2
schedule.epochs: 100
certification.n: 10_000
rows: {}
"""


@pytest.mark.slow
def test_every_row_of_cifar10_trains_and_certifies_on_a_few_images(tmp_path: Path) -> None:
    """Each method of the paper with ResNet-110: one update on 19 images, then one certificate."""
    write_cifar_binary(tmp_path / "cifar-10-batches-bin")
    known = study.get(written(tmp_path, CIFAR10), scale="tiny")
    methods = ("gaussian", "smoothadv", "macer", "stability", "drt", "drt-smoothadv", "drt-gd", "drt-cm")
    assert {run.row for run in known.runs} == {*methods, "adp", "gal"}
    for run in known.runs:
        assert (run.recipe.model, run.recipe.schedule.epochs) == ("resnet110", 1)
        start = None if run.start is None else str(tmp_path / run.start.folder)
        folder = tmp_path / run.folder
        train_run(replace(run.recipe, init_from=start), folder, data_dir=tmp_path)
        certify_run(folder, data_dir=tmp_path)
        assert len((folder / "certificates" / "we.tsv").read_text().splitlines()) == 2
