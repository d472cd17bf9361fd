"""The whole system on a virtual clock and one seed, with crashes; and the checker that judges what came of it."""
