"""Every model at 3 ranks equals its reference, in f32 and f64."""

import zoo

if __name__ == "__main__":
    zoo.main(ranks=3)
