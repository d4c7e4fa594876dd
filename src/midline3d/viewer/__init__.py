"""The viewer: a local web page to look at a result, frame by frame, and to correct it.

`serve` starts it, `guard` says who may ask, `app` answers, `session` knows the result, `digest` and `pictures` make
what is shown, and `drafts` is what people do to it. The page itself is plain JavaScript in `static`, three.js and uPlot
lie beside it, and nothing comes from the internet.
"""
