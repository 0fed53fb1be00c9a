/* Kernels of 3x3 and 5x5 with strides 1 and 2, LANES columns at a time. Included once for each
 * kind of vector; NAME(word) keeps their names apart.
 *
 * Rows are copied beside zeros shortly before they are needed (`struct rows`), with stride 2 even
 * and odd columns apart. So no inner loop knows of borders, and each of its loads is contiguous.
 * A vector may reach beyond the row's end: what it reads there is masked or not stored, and what
 * it writes there is overwritten by the next row, except at the end of what this thread writes. */

#define vector NAME(vector)
#define unaligned NAME(unaligned)
#define mask NAME(mask)
#define rows NAME(rows)
#define load NAME(load)
#define store NAME(store)
#define splat NAME(splat)
#define first_lanes NAME(first_lanes)
#define load_first NAME(load_first)
#define store_first NAME(store_first)
#define even_lanes NAME(even_lanes)
#define odd_lanes NAME(odd_lanes)
#define lower_pairs NAME(lower_pairs)
#define upper_pairs NAME(upper_pairs)
#define copy_row NAME(copy_row)
#define split_row NAME(split_row)
#define lay_out NAME(lay_out)
#define enter NAME(enter)
#define provide NAME(provide)
#define tile NAME(tile)
#define correlate NAME(correlate)
#define spread_row NAME(spread_row)
#define spread NAME(spread)
#define strip NAME(strip)
#define gather NAME(gather)
#define gather_group NAME(gather_group)
#define flush NAME(flush)
#define gather_rows NAME(gather_rows)
#define total NAME(total)
#define run_kernel NAME(run_kernel)
#define run_vectors NAME(run)

#include "depthwise_rows.h"

/* Column x * stride + kx of a row, and those of the next outputs. */
#define AT(row, x, kx) \
    load(stride == 1 ? (row) + (x) + (kx) : (row) + (x) + ((kx) & 1 ? PITCH / 2 : 0) + (kx) / 2)

/* --- forward; with stride 1 also the gradient of the input ------------------------------------ */

/* `count` rows of `width` outputs at once; from row to row it is `step`. */
INLINE void tile(const float *at, const vector *weights, vector bias, float *to, long width,
                 long step, const float *end, int kernel, int stride, int count) {
    for (long x = 0; x < width; x += LANES) {
        if (x + LANES > width && width >= LANES) x = width - LANES;
        vector sums[4];
#pragma unroll
        for (int row = 0; row < count; row++) sums[row] = bias;
#pragma unroll
        for (int i = 0; i < (count - 1) * stride + kernel; i++)
#pragma unroll
            for (int kx = 0; kx < kernel; kx++) {
                vector value = AT(at + i * PITCH, x, kx);
#pragma unroll
                for (int row = 0; row < count; row++) {
                    int ky = i - row * stride;
                    if (ky >= 0 && ky < kernel) sums[row] += weights[ky * kernel + kx] * value;
                }
            }
#pragma unroll
        for (int row = 0; row < count; row++)
            if (width >= LANES)
                store(to + row * step + x, sums[row]);
            else
                store_first(to + row * step, sums[row], width, end);
    }
}

/* The planes begin … end of the result. `turned`: with the weights turned by 180 degrees. */
INLINE void correlate(const struct task *t, struct planes p, int turned, long begin, long end,
                      float *slots, int kernel, int stride) {
    struct rows rows_of;
    long lines = (p.out_height - 1) * stride + kernel, count = t->images * t->channels;
    const float *stop = t->result + end * p.out_height * p.out_width;
    struct blocks blocks = blocks_of(p.out_width, MOST_COLUMNS / stride);
    while (next_block(&blocks)) {
        long width = blocks.end - blocks.begin;
        lay_out(&rows_of, slots, p, lines, blocks.begin * stride, (width - 1) * stride + kernel,
                stride, t->source + count * p.height * p.width);
        for (long plane = begin; plane < end; plane++) {
            long channel = plane % t->channels, y = 0;
            const float *own = t->weights + channel * kernel * kernel;
            float *to = t->result + plane * p.out_height * p.out_width + blocks.begin;
            vector weights[MOST_TAPS], bias = splat(t->bias ? t->bias[channel] : 0);
#pragma unroll
            for (int i = 0; i < kernel * kernel; i++)
                weights[i] = splat(own[turned ? kernel * kernel - 1 - i : i]);
            enter(&rows_of, t->source + plane * p.height * p.width);
            for (; y < p.out_height && p.out_height >= 4; y += 4) {
                if (y + 4 > p.out_height) y = p.out_height - 4; /* some are computed twice */
                tile(provide(&rows_of, y * stride, (y + 3) * stride + kernel, stride), weights,
                     bias, to + y * p.out_width, width, p.out_width, stop, kernel, stride, 4);
            }
            for (; y < p.out_height; y++)
                tile(provide(&rows_of, y * stride, y * stride + kernel, stride), weights, bias,
                     to + y * p.out_width, width, p.out_width, stop, kernel, stride, 1);
        }
    }
}

/* --- gradient of the input with stride 2 ------------------------------------------------------ */

/* One row of the result out of rows of the gradient, the last of them at `at`: two columns of it
 * for each of theirs, one by the weights of even columns and one by those of odd ones. */
INLINE void spread_row(const float *at, const vector *weights, float *to, long width, long pad,
                       const float *end, int kernel, int odd_row, int odd_pad) {
    const float *even = at + kernel / 2 + (pad + 1) / 2, *odd = at + kernel / 2 + pad / 2;
    for (long x = 0; 2 * x < width; x += LANES) {
        vector by_even = {0}, by_odd = {0};
#pragma unroll
        for (int ky = odd_row; ky < kernel; ky += 2)
#pragma unroll
            for (int kx = 0; kx < kernel; kx++) {
                const float *from = (kx & 1 ? odd : even) + x - ky / 2 * PITCH - kx / 2;
                *(kx & 1 ? &by_odd : &by_even) += weights[ky * kernel + kx] * load(from);
            }
        vector a = odd_pad ? by_odd : by_even, b = odd_pad ? by_even : by_odd;
        long left = width - 2 * x;
        store_first(to + 2 * x, lower_pairs(a, b), left, end);
        if (left > LANES)
            store_first(to + 2 * x + LANES, upper_pairs(a, b), left - LANES, end);
    }
}

INLINE void spread(const struct task *t, struct planes p, long begin, long end, float *slots,
                   int kernel, int odd_pad) {
    struct rows rows_of;
    long pad_y = p.pad_y, pad_x = p.pad_x, count = t->images * t->channels;
    const float *stop = t->result + end * p.out_height * p.out_width;
    struct blocks blocks = blocks_of((p.out_width + 1) / 2, MOST_COLUMNS);
    p.pad_y = p.pad_x = kernel / 2;
    while (next_block(&blocks)) {
        long x = 2 * blocks.begin, pairs = blocks.end - blocks.begin;
        long width = x + 2 * pairs < p.out_width ? 2 * pairs : p.out_width - x;
        lay_out(&rows_of, slots, p, (p.out_height - 1 + pad_y) / 2 + kernel / 2 + 1, blocks.begin,
                pairs + kernel, 1, t->source + count * p.height * p.width);
        for (long plane = begin; plane < end; plane++) {
            const float *own = t->weights + plane % t->channels * kernel * kernel;
            float *to = t->result + plane * p.out_height * p.out_width + x;
            vector weights[MOST_TAPS];
#pragma unroll
            for (int i = 0; i < kernel * kernel; i++) weights[i] = splat(own[i]);
            enter(&rows_of, t->source + plane * p.height * p.width);
            for (long y = 0; y < p.out_height; y++, to += p.out_width) {
                long first = (y + pad_y) / 2;
                const float *limit = width < p.out_width ? to + width : stop;
                const float *at = provide(&rows_of, first, first + kernel / 2 + 1, 1);
                at += kernel / 2 * PITCH;
                if ((y + pad_y) & 1)
                    spread_row(at, weights, to, width, pad_x, limit, kernel, 1, odd_pad);
                else
                    spread_row(at, weights, to, width, pad_x, limit, kernel, 0, odd_pad);
            }
        }
    }
}

/* --- gradient of the weights ------------------------------------------------------------------ */

/* Adds to sums (`height` x kernel) what `count` rows of LANES columns give, or of the first
 * `width` ones. */
INLINE void strip(const float *at, const float *slope, long width, long step, mask kept,
                  const float *end, vector *sums, int kernel, int stride, int height, int whole,
                  int count) {
    vector slopes[4];
#pragma unroll
    for (int row = 0; row < count; row++)
        slopes[row] = whole ? load(slope + row * step)
                            : load_first(slope + row * step, width, kept, end);
#pragma unroll
    for (int i = 0; i < (count - 1) * stride + height; i++)
#pragma unroll
        for (int kx = 0; kx < kernel; kx++) {
            vector value = AT(at + i * PITCH, 0, kx);
#pragma unroll
            for (int row = 0; row < count; row++) {
                int ky = i - row * stride;
                if (ky >= 0 && ky < height) sums[ky * kernel + kx] += slopes[row] * value;
            }
        }
}

/* All strips of n rows, for the `height` rows of the kernel that begin at `at`. */
INLINE void gather_rows(const float *at, const float *slope, long n, long width, long step,
                        mask kept, const float *end, vector *into, int kernel, int stride,
                        int height) {
    vector sums[MOST_TAPS];
#pragma unroll
    for (int i = 0; i < height * kernel; i++) sums[i] = into[i];
#define STRIP(whole, count)                                                                       \
    strip(at + row * stride * PITCH + x, slope + row * step + x, width - x, step, kept, end, sums, \
          kernel, stride, height, whole, count)
    for (long x = 0; x < width; x += LANES) {
        long row = 0;
        if (x + LANES <= width) {
            for (; row + 4 <= n; row += 4) STRIP(1, 4);
            for (; row + 2 <= n; row += 2) STRIP(1, 2);
            for (; row < n; row++) STRIP(1, 1);
        } else {
            for (; row + 4 <= n; row += 4) STRIP(0, 4);
            for (; row + 2 <= n; row += 2) STRIP(0, 2);
            for (; row < n; row++) STRIP(0, 1);
        }
    }
#undef STRIP
#pragma unroll
    for (int i = 0; i < height * kernel; i++) into[i] = sums[i];
}

INLINE double total(vector value) {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < LANES; i++) sum += value[i];
    return sum;
}

/* What a group of channels adds up: the planes of an image lie side by side, those of a channel far
 * apart, so the images are gone through once for the whole group. */
struct NAME(group) {
    vector lanes[GROUP][MOST_TAPS];
    double sums[GROUP][MOST_TAPS];
};

INLINE void flush(struct NAME(group) *group, long channel, int taps) {
    for (int i = 0; i < taps; i++) {
        group->sums[channel][i] += total(group->lanes[channel][i]);
        group->lanes[channel][i] = (vector){0};
    }
}

/* The channels begin … end, at most GROUP, over the columns of a block. */
INLINE void gather_group(const struct task *t, struct planes p, long begin, long end,
                         struct rows *rows_of, struct blocks block, int kernel, int stride) {
    struct NAME(group) group;
    long width = block.end - block.begin, added = 0;
    long lines = (p.out_height - 1) * stride + kernel, count = t->images * t->channels;
    /* All of a small plane at once, else four rows, so that the next ones come meanwhile. */
    long most = lines <= SLOTS ? p.out_height : 4;
    /* So many sums fit the registers beside their factors. */
    int at_once = kernel == 5 && REGISTERS < 32 ? 2 : kernel, taps = kernel * kernel;
    mask kept = first_lanes(width % LANES);
    const float *stop = t->weights + count * p.out_height * p.out_width;
    for (long channel = begin; channel < end; channel++)
        for (int i = 0; i < taps; i++) {
            group.lanes[channel - begin][i] = (vector){0};
            group.sums[channel - begin][i] = block.begin ? t->result[channel * taps + i] : 0;
        }
    for (long image = 0; image < t->images; image++) {
        long before = added;
        for (long channel = begin; channel < end; channel++) {
            long plane = image * t->channels + channel;
            const float *slope = t->weights + plane * p.out_height * p.out_width + block.begin;
            vector *lanes = group.lanes[channel - begin];
            added = before;
            enter(rows_of, t->source + plane * p.height * p.width);
            for (long y = 0; y < p.out_height; y += most) {
                long n = p.out_height - y < most ? p.out_height - y : most;
                const float *at =
                    provide(rows_of, y * stride, (y + n - 1) * stride + kernel, stride);
                const float *by = slope + y * p.out_width;
                if (lines > SLOTS) fetch(by + n * p.out_width, most * p.out_width, stop);
#pragma unroll
                for (int ky = 0; ky < kernel; ky += at_once)
                    gather_rows(at + ky * PITCH, by, n, width, p.out_width, kept, stop,
                                lanes + ky * kernel, kernel, stride,
                                ky + at_once < kernel ? at_once : kernel - ky);
                added += n * (width + LANES - 1) / LANES;
                if (added < MOST_ADDITIONS) continue;
                flush(&group, channel - begin, taps);
                added = 0;
            }
        }
    }
    for (long channel = begin; channel < end; channel++) {
        flush(&group, channel - begin, taps);
        for (int i = 0; i < taps; i++)
            t->result[channel * taps + i] = (float)group.sums[channel - begin][i];
    }
}

INLINE void gather(const struct task *t, struct planes p, long begin, long end, float *slots,
                   int kernel, int stride) {
    struct rows rows_of;
    long lines = (p.out_height - 1) * stride + kernel, count = t->images * t->channels;
    struct blocks blocks = blocks_of(p.out_width, MOST_COLUMNS / stride);
    while (next_block(&blocks)) {
        long columns = (blocks.end - blocks.begin - 1) * stride + kernel;
        lay_out(&rows_of, slots, p, lines, blocks.begin * stride, columns, stride,
                t->source + count * p.height * p.width);
        for (long channel = begin; channel < end; channel += GROUP)
            gather_group(t, p, channel, channel + GROUP < end ? channel + GROUP : end, &rows_of,
                         blocks, kernel, stride);
    }
}

/* --- which of them ---------------------------------------------------------------------------- */

INLINE void run_kernel(const struct task *t, long begin, long end, float *slots, int kernel,
                       int stride) {
    struct planes forth = {t->height, t->width, t->out_height, t->out_width, t->pad_y, t->pad_x};
    struct planes back = {t->out_height, t->out_width, t->height, t->width, t->pad_y, t->pad_x};
    if (t->operation == WEIGHT_GRADIENT)
        gather(t, forth, begin, end, slots, kernel, stride);
    else if (t->operation == FORWARD)
        correlate(t, forth, 0, begin, end, slots, kernel, stride);
    else if (stride == 2 && t->pad_x & 1)
        spread(t, back, begin, end, slots, kernel, 1);
    else if (stride == 2)
        spread(t, back, begin, end, slots, kernel, 0);
    else {
        back.pad_y = kernel - 1 - t->pad_y, back.pad_x = kernel - 1 - t->pad_x;
        correlate(t, back, 1, begin, end, slots, kernel, 1);
    }
}

/* The parts begin … end of a task that is_for_vectors. */
static void run_vectors(const struct task *t, long begin, long end, float *slots) {
    if (t->kernel == 3 && t->stride == 1)
        run_kernel(t, begin, end, slots, 3, 1);
    else if (t->kernel == 3)
        run_kernel(t, begin, end, slots, 3, 2);
    else if (t->stride == 1)
        run_kernel(t, begin, end, slots, 5, 1);
    else
        run_kernel(t, begin, end, slots, 5, 2);
}

#undef vector
#undef unaligned
#undef mask
#undef rows
#undef load
#undef store
#undef splat
#undef first_lanes
#undef load_first
#undef store_first
#undef even_lanes
#undef odd_lanes
#undef lower_pairs
#undef upper_pairs
#undef copy_row
#undef split_row
#undef lay_out
#undef enter
#undef provide
#undef tile
#undef correlate
#undef spread_row
#undef spread
#undef strip
#undef gather
#undef gather_group
#undef flush
#undef gather_rows
#undef total
#undef run_kernel
#undef run_vectors
#undef AT
