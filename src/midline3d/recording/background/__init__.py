"""What the cameras see without the worm, and the signal that it leaves.

light         medians beside the worm, smooth light, what was never seen filled in
signal        pictures as signal: the worm bright on 0
registration  how far a picture lies beside its background
static        what stands still, distinguished from a worm at rest
samples       frames of a stretch, and the backgrounds made of them
"""
