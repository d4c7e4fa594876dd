"""The methods that the paper compares with, and a cheap one of today, on the same cameras and crops.

They need scikit-image (`pip install "midline3d[baselines]"`), which is asked for when one of them is run.
"""
