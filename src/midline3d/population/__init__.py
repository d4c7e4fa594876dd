"""How exact it all is: a population of varied recordings, reconstructed side by side and summed up."""

from midline3d.population.run import Exam, benchmark
from midline3d.population.summary import Summary

__all__ = ["Exam", "Summary", "benchmark"]
