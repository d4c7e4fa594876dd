/* The pixel loss over a pyramid (losses.pixel_loss) and its gradient by the render, one view at a time.

   r = log(1 + R) - log(1 + I) at every pixel of every level; a level is the mean of 3 x 3 pixels of the finer one, every
   other pixel of every other row, what lies outside the image being 0. */

/* Where the levels of an image lie, one after the other. */
typedef struct {
    int count, height[64], width[64];
    size_t place[64], area;
} NAME(levels);

static NAME(levels) NAME(plan_levels)(int64_t height, int64_t width) {
    NAME(levels) l = {0};
    for (;; height = (height + 1) / 2, width = (width + 1) / 2) {
        l.height[l.count] = (int)height, l.width[l.count] = (int)width, l.place[l.count++] = l.area;
        l.area += (size_t)(height * width);
        if (height <= 1 && width <= 1) return l;
    }
}

/* Coarse levels of an image, and a line with a column on both sides. */
static size_t NAME(pyramid_room)(const scene *s) {
    const NAME(levels) l = NAME(plan_levels)(s->height, s->width);
    return (l.area - (size_t)(s->height * s->width) + (size_t)s->width + 3) * sizeof(REAL) + 64;
}

/* The next level. */
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

/* The transpose of `halve`: scale * (a level's own gradient + that of the coarser one, spread). */
static void NAME(spread)(const REAL *coarse, const REAL *own, int height, int width, REAL scale, REAL *line, REAL *to) {
    const int columns = (width + 1) / 2, rows = (height + 1) / 2;
    const REAL share = scale * (REAL)(1 / 9.0);
    line[columns] = 0;
    for (int row = 0; row < height; row++, to += width, own += width) {
        const REAL *here = coarse + (size_t)(row / 2) * columns;
        const REAL *next = row % 2 && row / 2 + 1 < rows ? here + columns : NULL;
        for (int i = 0; i < columns; i++) line[i] = here[i] * share;
        for (int i = 0; next && i < columns; i++) line[i] += next[i] * share;
        for (int i = 0; i < width / 2; i++) {
            to[2 * i] = own[2 * i] * scale + line[i];
            to[2 * i + 1] = own[2 * i + 1] * scale + (line[i] + line[i + 1]);
        }
        if (width % 2) to[width - 1] = own[width - 1] * scale + line[columns - 1];
    }
}

/* Whether nothing is rendered at any pixel of a vector. */
INLINE int NAME(blank)(const REAL *render) {
#if LANES > 1
    uint64_t bits[LANES * sizeof(REAL) / 8], any = 0;
    memcpy(bits, render, sizeof bits);
    for (size_t i = 0; i < sizeof bits / 8; i++) any |= bits[i];
    return any == 0;
#else
    return *render == 0;
#endif
}

/* The squared residuals of one vector of pixels, and their gradient 2 r / (1 + R); `goal` holds log(1 + I). */
INLINE vec NAME(squares)(const REAL *render, const REAL *goal, REAL *gradient) {
    const vec wanted = NAME(load)(goal);
    vec residual = -wanted, slope = (REAL)-2 * wanted;
    if (!NAME(blank)(render)) { /* as most of an image is */
        const vec ours = NAME(fill)(1) + NAME(load)(render);
        residual = NAME(ln)(ours) - wanted;
        slope = (REAL)2 * residual / ours;
    }
    NAME(store)(gradient, slope);
    return residual * residual;
}

/* The loss of one level, and its own part of the gradient. */
static double NAME(level_loss)(const REAL *render, const REAL *goal, size_t count, REAL *gradient) {
    const size_t whole = count / LANES * LANES;
    double total = 0;
    for (size_t i = 0; i < whole;) { /* float sums stay short */
        const size_t end = whole < i + 256 * LANES ? whole : i + 256 * LANES;
        vec loss = NAME(fill)(0);
        for (; i < end; i += LANES) loss += NAME(squares)(render + i, goal + i, gradient + i);
        total += NAME(sum)(loss);
    }
    if (whole < count) {
        REAL last[3][LANES] = {{0}};
        const size_t bytes = (count - whole) * sizeof(REAL);
        memcpy(last[0], render + whole, bytes);
        memcpy(last[1], goal + whole, bytes);
        total += NAME(sum)(NAME(squares)(last[0], last[1], last[2]));
        memcpy(gradient + whole, last[2], bytes);
    }
    return total;
}

/* log(1 + I) of one level. */
static void NAME(level_goal)(const REAL *image, size_t count, REAL *goal) {
    const size_t whole = count / LANES * LANES;
    const vec one = NAME(fill)(1);
    for (size_t i = 0; i < whole; i += LANES) NAME(store)(goal + i, NAME(ln)(one + NAME(load)(image + i)));
    if (whole < count) {
        REAL last[LANES] = {0};
        memcpy(last, image + whole, (count - whole) * sizeof(REAL));
        NAME(store)(last, NAME(ln)(one + NAME(load)(last)));
        memcpy(goal + whole, last, (count - whole) * sizeof(REAL));
    }
}

/* All levels of a view. GOALS: log(1 + I) into `goals`. PYRAMID: the render's loss, and every level's own part of its
   gradient into `levels`. */
static void NAME(climb)(const scene *s, int64_t view, char *memory) {
    const NAME(levels) l = NAME(plan_levels)(s->height, s->width);
    const size_t pixels = (size_t)(s->height * s->width);
    REAL *room = (REAL *)memory, *line = room + (l.area - pixels);
    const REAL *fine = (const REAL *)s->images + view * pixels;
    double loss = 0;
    for (int level = 0; level < l.count; level++) {
        const size_t at = view * l.area + l.place[level], count = (size_t)l.height[level] * l.width[level];
        if (s->job == GOALS) NAME(level_goal)(fine, count, (REAL *)s->goals + at);
        else loss += NAME(level_loss)(fine, (const REAL *)s->goals + at, count, (REAL *)s->levels + at);
        if (level + 1 == l.count) break;
        REAL *coarse = room + l.place[level + 1] - pixels;
        NAME(halve)(fine, l.height[level], l.width[level], line, coarse);
        fine = coarse;
    }
    if (s->job == PYRAMID) ((REAL *)s->loss)[view] = (REAL)loss;
}

/* The gradient by a view's render, from that by its loss: all levels' parts, from the coarsest to the finest. */
static void NAME(unfold)(const scene *s, int64_t view, char *memory) {
    const NAME(levels) l = NAME(plan_levels)(s->height, s->width);
    const size_t pixels = (size_t)(s->height * s->width);
    const REAL *parts = (const REAL *)s->levels + view * l.area, *coarse = parts + l.place[l.count - 1];
    REAL *room = (REAL *)memory, *line = room + (l.area - pixels), *out = (REAL *)s->by_image + view * pixels;
    const REAL up = ((const REAL *)s->up_loss)[view];
    if (l.count == 1) out[0] = up * parts[0];
    for (int level = l.count - 2; level >= 0; level--) {
        REAL *to = level ? room + l.place[level] - pixels : out;
        NAME(spread)(coarse, parts + l.place[level], l.height[level], l.width[level], level ? 1 : up, line, to);
        coarse = to;
    }
}
