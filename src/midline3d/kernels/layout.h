/* Where each unknown of a frame stands in its vector. layout.py says so, and is read here: each of these is the first
   of its block, `count` the number of all. */

typedef struct {
    int64_t nodes, axes, cameras;
    int64_t move, turn, bend, length, shift, sigma, iota, defocus, rho, count;
} layouts;

static int is_block(const layouts *l, int64_t first, int64_t size) {
    return first >= 0 && first <= l->count && size <= l->count - first;
}

/* Whether every block lies within the vector: a place beyond it would be read or written. */
static int is_layout(const layouts *l) {
    if (!is_count(l->nodes) || !is_count(l->axes) || !is_count(l->cameras) || !is_count(l->count)) return 0;
    return is_block(l, l->move, 3) && is_block(l, l->turn, 2) && is_block(l, l->bend, 2 * l->nodes) &&
           is_block(l, l->length, 1) && is_block(l, l->shift, l->axes) && is_block(l, l->sigma, l->cameras) &&
           is_block(l, l->iota, l->cameras) && is_block(l, l->defocus, l->cameras) && is_block(l, l->rho, l->cameras);
}
