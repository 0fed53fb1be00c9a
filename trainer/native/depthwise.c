/* Depthwise convolution of float32 planes (NCHW): forward, gradient of the input, gradient of the
 * weights. Where a library without oneDNN makes one matrix product of each channel, this walks
 * over the planes once.
 *
 * Freestanding: no C library. The caller fills a task, and as many threads as it likes call
 * phonerack_depthwise with it; each takes part after part until none is left, so that a slow core
 * takes fewer. Kernels of 3x3 and 5x5 with strides 1 and 2 are vectorised (depthwise_vectors.h);
 * all others, and rows that are too long, take plain C (depthwise_plain.h).
 * Built by fleetctl.provision.release; called by trainer/kernels.py, which checks the shapes. */

enum operation { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT };
enum variant { PLAIN, VECTORS, AVX2 };
enum {
    MOST_COLUMNS = 128, /* of a row that are done at a time */
    PITCH = 160,        /* floats from row to row of them: with a border, and room for a vector */
    SLOTS = 32,         /* rows that are held: they stay in the L1 cache */
    MOST_ADDITIONS = 256, /* in float32, before sums go on in float64 */
    MOST_TAPS = 25,
    GROUP = 16, /* channels whose weights' gradients are summed at a time */
#if defined(__aarch64__)
    REGISTERS = 32,
#else
    REGISTERS = 16,
#endif
};

struct task {
    const float *source;  /* the input; for the gradient of the input, that of the output */
    const float *weights; /* channels x kernel x kernel; for their gradient, that of the output */
    const float *bias;    /* channels, or 0 */
    float *result;
    long images, channels, height, width, out_height, out_width; /* of the convolution */
    long kernel, stride, pad_y, pad_x;
    long operation, variant;
    long part;   /* planes (channels, for the gradient of the weights) taken at a time */
    long issued; /* how many are taken already; 0 at first */
};

/* Where an operation reads planes and writes some: forth, or for the gradient of the input back. */
struct planes {
    long height, width, out_height, out_width, pad_y, pad_x;
};

/* Columns of the result that are done at a time, about equally many. */
struct blocks {
    long columns, count, next;
    long begin, end;
};

static struct blocks blocks_of(long columns, long most) {
    return (struct blocks){.columns = columns, .count = (columns + most - 1) / most};
}

/* `count` floats from `from` on will be read soon, those before `end`. */
static void fetch(const float *from, long count, const float *end) {
    enum { LINE = 64 / sizeof(float) };
    if (count > end - from) count = end - from;
    for (long i = 0; i < count; i += LINE) __builtin_prefetch(from + i);
}

static int next_block(struct blocks *b) {
    b->begin = b->columns * b->next / b->count;
    b->end = b->columns * (b->next + 1) / b->count;
    return b->next++ < b->count;
}

#define INLINE static inline __attribute__((always_inline))

#include "depthwise_plain.h"

#define LANES 4
#define NAME(word) word##_4
#include "depthwise_vectors.h"
#undef LANES
#undef NAME

#if defined(__x86_64__)
/* Compiled for processors that have it, and called on no other: the file loads on any. */
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#define LANES 8
#define NAME(word) word##_8
#include "depthwise_vectors.h"
#undef LANES
#undef NAME
#pragma clang attribute pop

static void cpuid(unsigned leaf, unsigned said[4]) {
    __asm__ volatile("cpuid"
                     : "=a"(said[0]), "=b"(said[1]), "=c"(said[2]), "=d"(said[3])
                     : "a"(leaf), "c"(0));
}

static int has_avx2(void) {
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, AVX2_BIT = 1 << 5, KEPT = 6 };
    unsigned said[4], low, high;
    cpuid(0, said);
    if (said[0] < 7) return 0;
    cpuid(1, said);
    if ((said[2] & (FMA | OSXSAVE | AVX)) != (FMA | OSXSAVE | AVX)) return 0;
    /* The kernel keeps the wide registers of a thread that is put aside. */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & KEPT) != KEPT) return 0;
    cpuid(7, said);
    return (said[1] & AVX2_BIT) != 0;
}
#else
static int has_avx2(void) { return 0; }
#endif

/* The best variant that this processor runs; all below it run too. */
__attribute__((visibility("default"))) long phonerack_best_variant(void) {
    return has_avx2() ? AVX2 : VECTORS;
}

static int is_for_vectors(const struct task *t) {
    return (t->kernel == 3 || t->kernel == 5) && (t->stride == 1 || t->stride == 2) &&
           t->pad_y < t->kernel && t->pad_x < t->kernel;
}

static void run(const struct task *t, long begin, long end, float *slots) {
    if (t->variant == PLAIN || !is_for_vectors(t))
        run_plain(t, begin, end);
#if defined(__x86_64__)
    else if (t->variant == AVX2 && t->out_width > 4)
        run_8(t, begin, end, slots);
#endif
    else
        run_4(t, begin, end, slots);
}

/* Takes the next part; the first that is in it. The compiler's own for Android would be a call. */
static long take(struct task *t) {
#if defined(__aarch64__)
    long first, next;
    int failed;
    __asm__ volatile("1: ldxr %0, [%3]\n"
                     "add %1, %0, %4\n"
                     "stxr %w2, %1, [%3]\n"
                     "cbnz %w2, 1b"
                     : "=&r"(first), "=&r"(next), "=&r"(failed)
                     : "r"(&t->issued), "r"(t->part)
                     : "memory");
    return first;
#else
    return __atomic_fetch_add(&t->issued, t->part, __ATOMIC_RELAXED);
#endif
}

__attribute__((visibility("default"))) void phonerack_depthwise(struct task *t) {
    _Alignas(64) float slots[SLOTS * PITCH];
    long count = t->operation == WEIGHT_GRADIENT ? t->channels : t->images * t->channels;
    for (;;) {
        long begin = take(t);
        if (begin >= count) return;
        run(t, begin, begin + t->part < count ? begin + t->part : count, slots);
    }
}
