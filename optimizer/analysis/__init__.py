"""Analysis of observations: the importance of parameters, and the changes that a recommendation needs."""
