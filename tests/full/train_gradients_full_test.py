"""Gradients of every loss model at the numbers of ranks CI leaves out."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

import train_gradients_test  # noqa: E402

if __name__ == "__main__":
    train_gradients_test.main([1, 4])
