/* Any kernel, any stride, any padding, in C that a compiler may vectorise as it can. */

struct range {
    long begin, end;
};

/* The outputs o of `count` for which 0 <= o * stride + offset < size. */
static struct range covered(long count, long stride, long offset, long size) {
    long begin = offset < 0 ? (-offset + stride - 1) / stride : 0;
    long end = offset < size ? (size - 1 - offset) / stride + 1 : 0;
    if (end > count) end = count;
    return (struct range){begin, begin < end ? end : begin};
}

static void forward_plain(const struct task *t, long plane) {
    long channel = plane % t->channels;
    const float *source = t->source + plane * t->height * t->width;
    const float *weights = t->weights + channel * t->kernel * t->kernel;
    float *result = t->result + plane * t->out_height * t->out_width;
    for (long i = 0; i < t->out_height * t->out_width; i++)
        result[i] = t->bias ? t->bias[channel] : 0;
    for (long ky = 0; ky < t->kernel; ky++)
        for (long kx = 0; kx < t->kernel; kx++) {
            struct range ys = covered(t->out_height, t->stride, ky - t->pad_y, t->height);
            struct range xs = covered(t->out_width, t->stride, kx - t->pad_x, t->width);
            float weight = weights[ky * t->kernel + kx];
            for (long y = ys.begin; y < ys.end; y++) {
                const float *from = source + (y * t->stride + ky - t->pad_y) * t->width;
                float *restrict to = result + y * t->out_width;
                for (long x = xs.begin; x < xs.end; x++)
                    to[x] += weight * from[x * t->stride + kx - t->pad_x];
            }
        }
}

static void input_gradient_plain(const struct task *t, long plane) {
    const float *source = t->source + plane * t->out_height * t->out_width;
    const float *weights = t->weights + plane % t->channels * t->kernel * t->kernel;
    float *result = t->result + plane * t->height * t->width;
    for (long i = 0; i < t->height * t->width; i++) result[i] = 0;
    for (long ky = 0; ky < t->kernel; ky++)
        for (long kx = 0; kx < t->kernel; kx++) {
            struct range ys = covered(t->out_height, t->stride, ky - t->pad_y, t->height);
            struct range xs = covered(t->out_width, t->stride, kx - t->pad_x, t->width);
            float weight = weights[ky * t->kernel + kx];
            for (long y = ys.begin; y < ys.end; y++) {
                const float *from = source + y * t->out_width;
                float *restrict to = result + (y * t->stride + ky - t->pad_y) * t->width;
                for (long x = xs.begin; x < xs.end; x++)
                    to[x * t->stride + kx - t->pad_x] += weight * from[x];
            }
        }
}

static void weight_gradient_plain(const struct task *t, long channel) {
    float *result = t->result + channel * t->kernel * t->kernel;
    for (long ky = 0; ky < t->kernel; ky++)
        for (long kx = 0; kx < t->kernel; kx++) {
            struct range ys = covered(t->out_height, t->stride, ky - t->pad_y, t->height);
            struct range xs = covered(t->out_width, t->stride, kx - t->pad_x, t->width);
            double sum = 0;
            for (long image = 0; image < t->images; image++) {
                long plane = image * t->channels + channel;
                const float *source = t->source + plane * t->height * t->width;
                const float *slope = t->weights + plane * t->out_height * t->out_width;
                for (long y = ys.begin; y < ys.end; y++) {
                    const float *from = source + (y * t->stride + ky - t->pad_y) * t->width;
                    const float *by = slope + y * t->out_width;
                    float row = 0;
                    for (long x = xs.begin; x < xs.end; x++)
                        row += by[x] * from[x * t->stride + kx - t->pad_x];
                    sum += row;
                }
            }
            result[ky * t->kernel + kx] = (float)sum;
        }
}

static void run_plain(const struct task *t, long begin, long end) {
    for (long i = begin; i < end; i++) {
        if (t->operation == FORWARD) forward_plain(t, i);
        if (t->operation == INPUT_GRADIENT) input_gradient_plain(t, i);
        if (t->operation == WEIGHT_GRADIENT) weight_gradient_plain(t, i);
    }
}
