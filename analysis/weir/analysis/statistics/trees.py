# SPDX-License-Identifier: Apache-2.0
"""Decision trees that predict an outcome from conditions, grown by scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

MAX_DEPTH = 3
FOLDS = 5


@dataclass(frozen=True)
class TreeNode:
    """A leaf, or a test: `feature` ≤ `threshold` leads to node number `left`, else to `right`."""

    samples: int
    counts: tuple[int, ...]
    """Samples of each class, in the order of `DecisionTree.classes`."""
    label: str
    """The class with the most samples."""
    feature: str | None = None
    threshold: float | None = None
    left: int | None = None
    right: int | None = None


@dataclass(frozen=True)
class DecisionTree:
    """The tree, root first. `accuracy` is that on the samples that it was grown from."""

    classes: tuple[str, ...]
    features: tuple[str, ...]
    nodes: tuple[TreeNode, ...]
    accuracy: float
    validated: float | None
    """Mean accuracy of stratified cross-validation; None where a class has fewer than two samples."""

    def predict(self, row: Mapping[str, float]) -> str:
        """The class of one sample; raises KeyError for a missing feature that the tree needs."""
        node = self.nodes[0]
        while node.feature is not None and node.threshold is not None:
            below = row[node.feature] <= node.threshold
            node = self.nodes[(node.left if below else node.right) or 0]
        return node.label

    def text(self) -> str:
        """The tree as indented lines."""
        return "\n".join(self._lines(0, ""))

    def _lines(self, at: int, indent: str) -> list[str]:
        node = self.nodes[at]
        if node.feature is None or node.left is None or node.right is None:
            return [f"{indent}{node.label} ({max(node.counts)} of {node.samples})"]
        return [
            f"{indent}{node.feature} ≤ {node.threshold:g}:",
            *self._lines(node.left, indent + "  "),
            f"{indent}{node.feature} > {node.threshold:g}:",
            *self._lines(node.right, indent + "  "),
        ]


def decision_tree(
    rows: Sequence[Mapping[str, float]], labels: Sequence[str], max_depth: int = MAX_DEPTH, seed: int = 0
) -> DecisionTree:
    """Grow a tree (Gini impurity) that predicts the labels from the rows' features.

    Raises ValueError without rows, with fewer or more labels than rows, or with rows of different features.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.tree import DecisionTreeClassifier

    if not rows or len(rows) != len(labels):
        raise ValueError(f"{len(rows)} samples and {len(labels)} labels; valid: one label for each, not none")
    features = tuple(rows[0])
    for row in rows:
        if set(row) != set(features):
            raise ValueError(f"features {', '.join(row)} beside {', '.join(features)}; they must be the same")
    x = np.array([[row[feature] for feature in features] for row in rows], dtype=np.float64)
    y = np.array(labels)
    grown = DecisionTreeClassifier(max_depth=max_depth, random_state=seed).fit(x, y)
    classes = tuple(str(name) for name in grown.classes_)
    tree = grown.tree_
    nodes = []
    for at in range(tree.node_count):
        # scikit-learn stores the part of each class in a node's samples.
        counts = tuple(round(float(part) * int(tree.n_node_samples[at])) for part in tree.value[at][0])
        label, left = classes[int(np.argmax(counts))], int(tree.children_left[at])
        if left < 0:
            nodes.append(TreeNode(sum(counts), counts, label))
            continue
        feature = features[int(tree.feature[at])]
        right = int(tree.children_right[at])
        nodes.append(TreeNode(sum(counts), counts, label, feature, float(tree.threshold[at]), left, right))
    folds = min(FOLDS, min(labels.count(name) for name in classes)) if len(classes) > 1 else 0
    validated = None
    if folds >= 2:
        split = StratifiedKFold(folds, shuffle=True, random_state=seed)
        fresh = DecisionTreeClassifier(max_depth=max_depth, random_state=seed)
        validated = float(np.mean(cross_val_score(fresh, x, y, cv=split)))
    return DecisionTree(classes, features, tuple(nodes), float(grown.score(x, y)), validated)
