/* The sums of an all-reduce, as a compiler for this processor writes them. */

void add(float *restrict sum, const float *restrict part, long length) {
    for (long i = 0; i < length; i++) sum[i] += part[i];
}

void add_half(float *restrict sum, const _Float16 *restrict part, long length) {
    for (long i = 0; i < length; i++) sum[i] += (float)part[i];
}
