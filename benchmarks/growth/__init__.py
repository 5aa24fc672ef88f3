"""What a site of ten billion URLs needs: a model from measured costs, and a simulation of its queue at 1/1000."""
