"""`tpuflex recover`: the state is brought back in line with the cloud after a killed run."""
