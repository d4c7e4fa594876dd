/* The pixel loss over a pyramid (losses.pixel_loss) and its gradient by the render, one view at a time.

   r = log(1 + R) - log(1 + I) at every pixel of every level; a level is the mean of 3 x 3 pixels of the finer one, every
   other pixel of every other row, what lies outside the image being 0. */

/* How many numbers all levels of an image take, each made up to whole vectors. */
static size_t NAME(pyramid_area)(int64_t height, int64_t width) {
    size_t area = 0;
    for (;; height = (height + 1) / 2, width = (width + 1) / 2) {
        area += ((size_t)(height * width) + LANES - 1) / LANES * LANES;
        if (height <= 1 && width <= 1) return area;
    }
}

/* Three copies of the levels (render, image, gradient) and a line. */
static size_t NAME(pyramid_room)(const scene *s) {
    return (3 * NAME(pyramid_area)(s->height, s->width) + (size_t)s->width + 3) * sizeof(REAL) + 64;
}

/* The next level. `line` has room for the width and a column of zeros on both sides. */
static void NAME(halve)(const REAL *from, int height, int width, REAL *line, REAL *to) {
    const int columns = (width + 1) / 2;
    line[0] = line[width + 1] = 0;
    for (int row = 0; row < height; row += 2, to += columns) {
        const REAL *here = from + (size_t)row * width;
        const REAL *above = row > 0 ? here - width : NULL, *below = row + 1 < height ? here + width : NULL;
        memcpy(line + 1, here, (size_t)width * sizeof(REAL));
        for (int i = 0; above && i < width; i++) line[i + 1] += above[i];
        for (int i = 0; below && i < width; i++) line[i + 1] += below[i];
        for (int i = 0; i < columns; i++) to[i] = (line[2 * i] + line[2 * i + 1] + line[2 * i + 2]) * (REAL)(1 / 9.0);
    }
}

/* The transpose of `halve`: the coarse level's gradient added to the finer one's. */
static void NAME(spread)(const REAL *from, int height, int width, REAL *line, REAL *to) {
    const int columns = (width + 1) / 2, rows = (height + 1) / 2;
    line[columns] = 0;
    for (int row = 0; row < height; row++, to += width) {
        const REAL *here = from + (size_t)(row / 2) * columns;
        const REAL *next = row % 2 && row / 2 + 1 < rows ? here + columns : NULL;
        for (int i = 0; i < columns; i++) line[i] = here[i] * (REAL)(1 / 9.0);
        for (int i = 0; next && i < columns; i++) line[i] += next[i] * (REAL)(1 / 9.0);
        for (int i = 0; i < width / 2; i++) {
            to[2 * i] += line[i];
            to[2 * i + 1] += line[i] + line[i + 1];
        }
        if (width % 2) to[width - 1] += line[columns - 1];
    }
}

/* The loss of one level, and its own part of the gradient: 2 r / (1 + R). Whole vectors. */
static double NAME(level_loss)(const REAL *render, const REAL *image, size_t count, REAL *gradient) {
    const vec one = NAME(fill)(1);
    double total = 0;
    for (size_t begin = 0; begin < count; begin += 256 * LANES) { /* float sums stay short */
        const size_t end = count < begin + 256 * LANES ? count : begin + 256 * LANES;
        vec loss = NAME(fill)(0);
        for (size_t i = begin; i < end; i += LANES) {
            /* One division for both 1 / (1 + R) and (1 + R) / (1 + I). */
            const vec ours = one + NAME(load)(render + i), theirs = one + NAME(load)(image + i);
            const vec both = one / (ours * theirs), residual = NAME(ln)(ours * ours * both);
            loss += residual * residual;
            NAME(store)(gradient + i, residual * theirs * both * (REAL)2);
        }
        total += NAME(sum)(loss);
    }
    return total;
}

static void NAME(pyramid)(const scene *s, int64_t view, char *memory) {
    const size_t area = NAME(pyramid_area)(s->height, s->width), pixels = (size_t)(s->height * s->width);
    REAL *render = (REAL *)memory, *image = render + area, *gradient = image + area, *line = gradient + area;
    int heights[64] = {(int)s->height}, widths[64] = {(int)s->width}, level = 0;
    size_t place[64] = {0};
    double loss = 0;
    memcpy(render, (const REAL *)s->image + view * pixels, pixels * sizeof(REAL));
    memcpy(image, (const REAL *)s->images + view * pixels, pixels * sizeof(REAL));
    for (;; level++) {
        const int height = heights[level], width = widths[level];
        const size_t at = place[level], count = (size_t)height * width, whole = (count + LANES - 1) / LANES * LANES;
        memset(render + at + count, 0, (whole - count) * sizeof(REAL));
        memset(image + at + count, 0, (whole - count) * sizeof(REAL));
        loss += NAME(level_loss)(render + at, image + at, whole, gradient + at);
        if (height == 1 && width == 1) break;
        place[level + 1] = at + whole, heights[level + 1] = (height + 1) / 2, widths[level + 1] = (width + 1) / 2;
        NAME(halve)(render + at, height, width, line, render + at + whole);
        NAME(halve)(image + at, height, width, line, image + at + whole);
    }
    ((REAL *)s->loss)[view] = (REAL)loss;
    for (; level > 0; level--)
        NAME(spread)(gradient + place[level], heights[level - 1], widths[level - 1], line, gradient + place[level - 1]);
    memcpy((REAL *)s->by_image + view * pixels, gradient, pixels * sizeof(REAL));
}
