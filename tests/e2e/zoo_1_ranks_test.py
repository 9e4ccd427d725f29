"""Every model at 1 rank equals its reference, in f32 and f64."""

import zoo

if __name__ == "__main__":
    zoo.main(ranks=1)
