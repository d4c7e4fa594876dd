"""Where the worm is.

places    things in a view, joined over the views, decided over time
sighting  the places in a set of samples, first with the worm's mass unknown
survey    a first look over the recording: polarity, background, usual size, noise
order     whether each camera has its own pictures, the right way up
locator   what may be the worm in a frame, by what the survey knows
"""
