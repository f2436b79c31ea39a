"""Which settings read handwritten digits best? A grid search of scikit-learn on two processes."""

from functools import partial

from sklearn.datasets import load_digits
from sklearn.feature_selection import SelectKBest, mutual_info_classif
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def load():
    images, digits = load_digits(return_X_y=True)
    return train_test_split(images, digits, test_size=0.25, random_state=0)


def search(images, digits):
    information = partial(mutual_info_classif, random_state=0)
    steps = [
        ("scale", StandardScaler()),
        ("select", SelectKBest(information, k=40)),
        ("classify", SVC()),
    ]
    model = Pipeline(steps)
    grid = {"classify__C": [1, 10], "classify__gamma": [0.003, 0.01, 0.03]}
    return GridSearchCV(model, grid, cv=3, n_jobs=2).fit(images, digits)


def main():
    train, test, train_digits, test_digits = load()
    found = search(train, train_digits)
    print("best settings:", found.best_params_)
    print(f"{found.score(test, test_digits):.1%} of the test images are read correctly")


if __name__ == "__main__":
    main()
