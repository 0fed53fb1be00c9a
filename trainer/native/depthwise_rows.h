/* The part of depthwise_vectors.h that knows of vectors and of rows: loads, stores, and a window on
 * the rows of a plane beside zeros. Included by it, once for each kind of vector. */

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef float unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int mask __attribute__((vector_size(4 * LANES)));

INLINE vector load(const float *from) { return *(const unaligned *)from; }
INLINE void store(float *to, vector value) { *(unaligned *)to = value; }
INLINE vector splat(float value) { return value - (vector){0}; }

#if LANES == 8
INLINE mask first_lanes(long count) {
    return (mask){0, 1, 2, 3, 4, 5, 6, 7} < (int)count - (mask){0};
}
INLINE vector even_lanes(vector a, vector b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
}
INLINE vector odd_lanes(vector a, vector b) {
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}
INLINE vector lower_pairs(vector a, vector b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
INLINE vector upper_pairs(vector a, vector b) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
#else
INLINE mask first_lanes(long count) { return (mask){0, 1, 2, 3} < (int)count - (mask){0}; }
INLINE vector even_lanes(vector a, vector b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
INLINE vector odd_lanes(vector a, vector b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7); }
INLINE vector lower_pairs(vector a, vector b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
INLINE vector upper_pairs(vector a, vector b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
#endif

/* The first `count` lanes, the others zero; nothing at or behind `end` is read. */
INLINE vector load_first(const float *from, long count, mask kept, const float *end) {
    if (from + LANES <= end) return (vector)((mask)load(from) & kept);
    _Alignas(32) float lanes[LANES];
    for (long i = 0; i < LANES; i++) lanes[i] = i < count ? from[i] : 0;
    return load(lanes);
}

/* All lanes where that ends before `end`, else the first `count` (at most LANES) ones. */
INLINE void store_first(float *to, vector value, long count, const float *end) {
    if (to + LANES <= end) {
        store(to, value);
        return;
    }
#pragma unroll
    for (long i = 0; i < LANES; i++)
        if (i < count) to[i] = value[i];
}

/* A window on padded rows of a plane that moves downwards. */
struct rows {
    float *slots;             /* SLOTS rows, PITCH apart */
    const float *plane;       /* its first column that is shown */
    long height, width, step; /* rows, columns of them that are shown, floats from row to row */
    long above, left;         /* zeros */
    long skipped;             /* columns before those that are shown */
    int whole;                /* all padded rows have slots of their own */
    long first, filled;       /* padded rows first … filled - 1 are in the slots 0, 1, … */
    const float *end;         /* of what may be read */
    mask kept, kept_even, kept_odd;
};

/* For `lines` padded rows, and the padded columns begin … begin + columns - 1. */
INLINE void lay_out(struct rows *to, float *slots, struct planes by, long lines, long begin,
                    long columns, int stride, const float *end) {
    long left = begin < by.pad_x ? by.pad_x - begin : 0;
    long skipped = begin < by.pad_x ? 0 : begin - by.pad_x;
    long width = by.width - skipped < columns - left ? by.width - skipped : columns - left;
    if (width < 0) width = 0;
    long tail = width % (LANES * stride);
    to->slots = slots, to->end = end;
    to->height = by.height, to->width = width, to->step = by.width;
    to->above = by.pad_y, to->left = left, to->skipped = skipped, to->whole = lines <= SLOTS;
    to->kept = first_lanes(tail);
    to->kept_even = first_lanes((tail + 1) / 2), to->kept_odd = first_lanes(tail / 2);
    /* What is beside the columns that are shown is not written again. */
    for (long i = 0; i < (to->whole ? lines : SLOTS) * PITCH; i += LANES)
        store(slots + i, (vector){0});
}

INLINE void copy_row(const struct rows *by, float *to, const float *from) {
    long width = by->width, x = 0;
    for (; x + LANES <= width; x += LANES) store(to + x, load(from + x));
    if (x == width) return;
    if (width >= LANES)
        store(to + width - LANES, load(from + width - LANES));
    else
        store(to, load_first(from, width, by->kept, by->end));
}

/* Even columns of `from` to one place, odd ones to the other. */
INLINE void split_row(const struct rows *by, float *even, float *odd, const float *from) {
    long width = by->width, x = 0;
    for (; x + 2 * LANES <= width; x += 2 * LANES) {
        vector a = load(from + x), b = load(from + x + LANES);
        store(even + x / 2, even_lanes(a, b));
        store(odd + x / 2, odd_lanes(a, b));
    }
    if (x == width) return;
    if (from + x + 2 * LANES <= by->end) {
        vector a = load(from + x), b = load(from + x + LANES);
        store(even + x / 2, (vector)((mask)even_lanes(a, b) & by->kept_even));
        store(odd + x / 2, (vector)((mask)odd_lanes(a, b) & by->kept_odd));
        return;
    }
    for (; x < width; x++) (x & 1 ? odd : even)[x / 2] = from[x];
}

INLINE void enter(struct rows *to, const float *plane) {
    to->plane = plane + to->skipped, to->first = to->filled = 0;
}

/* The padded rows from … upto - 1 of the plane; `from` never decreases. */
INLINE const float *provide(struct rows *to, long from, long upto, int stride) {
    long left = to->left;
    if (upto - to->first > SLOTS) {
        float *next = to->slots;
        for (long i = from; i < to->filled; i++, next += PITCH)
            for (long x = 0; x < PITCH; x += LANES)
                store(next + x, load(to->slots + (i - to->first) * PITCH + x));
        to->first = from;
        if (to->filled < from) to->filled = from;
    }
    for (; to->filled < upto; to->filled++) {
        float *row = to->slots + (to->filled - to->first) * PITCH;
        long y = to->filled - to->above;
        const float *columns = to->plane + y * to->step;
        if (y < 0 || y >= to->height) {
            for (long x = 0; !to->whole && x < PITCH; x += LANES) store(row + x, (vector){0});
        } else if (stride == 1)
            copy_row(to, row + left, columns);
        else if (left & 1)
            split_row(to, row + PITCH / 2 + left / 2, row + (left + 1) / 2, columns);
        else
            split_row(to, row + left / 2, row + PITCH / 2 + left / 2, columns);
    }
    return to->slots + (from - to->first) * PITCH;
}
