# %% [markdown]
# # From a recording to a figure
#
# A worm is simulated, reconstructed, held against the truth, measured and drawn. Run it cell by cell in an editor that
# knows `# %%` (VS Code, Spyder, PyCharm, Jupytext), or as a script: `python examples/swimming.py`.
# With a recording of your own, leave out the first cell and the one about the truth.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import midline3d

FOLDER = Path("swimming")
FRAMES = 120

# %% [markdown]
# ## A recording
# Three cameras, with the calibration and the description that a real one has, and `truth.nc` beside them. It is small,
# so that all of this takes a minute.

# %%
plan = midline3d.Plan("clean", frames=FRAMES, size=256, px_per_mm=80.0, seed=1, source="npy")
recording = midline3d.simulate(FOLDER / "recording", plan)
print((recording / "recording.toml").read_text())

# %% [markdown]
# ## Check it
# What is wrong with a recording is found before hours are spent on it.

# %%
report = midline3d.check(recording)
print(report.text())

# %% [markdown]
# ## Reconstruct it
# Run again, this cell goes on where it was stopped, or does nothing. A clean recording can be begun from fewer frames
# than usual; your own deserves the defaults: leave `settings` out.

# %%
quick = {"start": {"pairs": 1, "apart": 2, "starts": 4}, "body": {"span": 12, "frames": 6}}
out = midline3d.reconstruct(recording, FOLDER / "out", settings=quick, device="cpu").parent
print(midline3d.info(out).text())

# %% [markdown]
# ## How far from the truth?

# %%
measured = midline3d.evaluate_truth(out, recording / "truth.nc").summary()
print(f"midline {measured['midline_px']:.2f} px, head {measured['head_px']:.2f} px, tail {measured['tail_px']:.2f} px")

# %% [markdown]
# ## The result is an xarray.Dataset
# Every variable has its unit and meaning. Frames that were not found are NaN.

# %%
result = midline3d.open_result(out)
head = result.position.sel(keypoint=0, individual="worm")  # (time, space), mm
print(head.attrs["long_name"], head.attrs["units"], head.shape)
print(dict(zip(*np.unique(result.status.values.astype(str), return_counts=True), strict=True)))

# %% [markdown]
# ## Kinematics
# Speeds come smoothed, with a standard deviation for every frame.

# %%
motion = midline3d.kinematics.of(out)
for name in ("length", "speed", "forward_speed", "planarity"):
    print(f"{name}: {float(motion[name].mean()):.3f} {motion[name].attrs['units']} ({motion[name].attrs['long_name']})")

# %% [markdown]
# ## A figure

# %%
figure, (moving, bending, way) = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
speed, off = motion.forward_speed, motion.forward_speed_std
moving.fill_between(motion.time, speed - off, speed + off, alpha=0.3, linewidth=0)
moving.plot(motion.time, speed)
moving.set(xlabel="time (s)", ylabel="forward speed (mm/s)")
image = bending.pcolormesh(
    motion.time, np.linspace(0, 1, motion.sizes["keypoint"]), motion.curvature.T, shading="nearest"
)
bending.set(xlabel="time (s)", ylabel="head to tail", ylim=(1, 0))
figure.colorbar(image, ax=bending, label="curvature (1/mm)")
for frame in np.linspace(0, len(result.time) - 1, 5).astype(int):
    way.plot(*result.position[frame].sel(individual="worm", space=["x", "y"]).values, color="0.7")
way.plot(*motion.centroid.sel(space=["x", "y"]).values.T)
way.set(xlabel="x (mm)", ylabel="y (mm)", aspect="equal")
figure.savefig(FOLDER / "swimming.png", dpi=150)

# %% [markdown]
# ## A report
# The same and more as one page, `swimming/out/report/report.html`, with every figure as PNG and SVG.

# %%
print(midline3d.write_report(out))
