/* Some of candle's kernels, and what else of CUDA its tensors ask for, on the memory of this process: for
 * tools/cuda/test, on machines without a GPU. Devices, memory and streams are libconsort_nccl.so's.
 *
 * A kernel has the name and the parameters that it has in candle 0.11, and is carried out when it is launched, after
 * all that its stream was given. One that is not here is a launch that fails.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int cuStreamSynchronize(void *stream);

typedef void (*kernel)(void **);

#define ARG(type, at) (*(type *)args[at])

/* Where the number of this index is in memory that has these dimensions and strides; without, one behind the other. */
static size_t place(size_t index, size_t dims, const size_t *info, size_t strides) {
    if (info == NULL) return index;
    size_t at = 0;
    for (size_t d = dims; d-- > 0;) {
        at += index % info[d] * info[strides * dims + d];
        index /= info[d];
    }
    return at;
}

static void const_set_f32(void **args) {
    for (size_t i = 0; i < ARG(size_t, 0); i++)
        ARG(float *, 4)[place(i, ARG(size_t, 1), ARG(size_t *, 2), 1)] = ARG(float, 3);
}

static void affine_f32(void **args) {
    const float *in = ARG(float *, 3);
    float *out = ARG(float *, 4);
    for (size_t i = 0; i < ARG(size_t, 0); i++) {
        float x = in ? in[place(i, ARG(size_t, 1), ARG(size_t *, 2), 1)] : out[i];
        out[i] = x * ARG(float, 5) + ARG(float, 6);
    }
}

#define UNARY(name, from, to, result)                                                  \
    static void name(void **args) {                                                    \
        const from *in = ARG(from *, 3);                                               \
        to *out = ARG(to *, 4);                                                        \
        for (size_t i = 0; i < ARG(size_t, 0); i++) {                                  \
            from x = in ? in[place(i, ARG(size_t, 1), ARG(size_t *, 2), 1)] : out[i];  \
            out[i] = result;                                                           \
        }                                                                              \
    }
UNARY(ucopy_f32, float, float, x)
UNARY(usqr_f32, float, float, x * x)
UNARY(usqr_f64, double, double, x * x)
UNARY(uneg_f32, float, float, -x)
UNARY(cast_f32_f64, float, double, x)

#define BINARY(name, result)                                                             \
    static void name(void **args) {                                                      \
        for (size_t i = 0; i < ARG(size_t, 0); i++) {                                    \
            float x = ARG(float *, 3)[place(i, ARG(size_t, 1), ARG(size_t *, 2), 1)];    \
            float y = ARG(float *, 4)[place(i, ARG(size_t, 1), ARG(size_t *, 2), 2)];    \
            ARG(float *, 5)[i] = result;                                                 \
        }                                                                                \
    }
BINARY(badd_f32, x + y)
BINARY(bsub_f32, x - y)
BINARY(bmul_f32, x * y)
BINARY(bdiv_f32, x / y)

#define SUM(name, small, type)                                                         \
    static void small(void **args) {                                                   \
        size_t rows = ARG(size_t, 0), each = ARG(size_t, 1);                           \
        for (size_t row = 0; row < rows; row++) {                                      \
            type sum = 0;                                                              \
            for (size_t i = row * each; i < (row + 1) * each; i++)                     \
                sum += ARG(type *, 4)[place(i, ARG(size_t, 2), ARG(size_t *, 3), 1)];  \
            ARG(type *, 5)[row] = sum;                                                 \
        }                                                                              \
    }                                                                                  \
    static void name(void **args) {                                                    \
        size_t rows = ARG(size_t, 0) / ARG(size_t, 1);                                 \
        void *all[] = {&rows, args[1], args[2], args[3], args[4], args[5]};            \
        small(all);                                                                    \
    }
SUM(fast_sum_f32, fast_sum_small_f32, float)
SUM(fast_sum_f64, fast_sum_small_f64, double)

static void copy2d_f32(void **args) {
    for (uint32_t row = 0; row < ARG(uint32_t, 2); row++)
        memcpy(ARG(float *, 1) + row * ARG(uint32_t, 5), ARG(float *, 0) + row * ARG(uint32_t, 4),
               ARG(uint32_t, 3) * sizeof(float));
}

#define KERNEL(name) {#name, name}
static const struct {
    const char *name;
    kernel run;
} KERNELS[] = {
    KERNEL(const_set_f32), KERNEL(affine_f32),   KERNEL(ucopy_f32),          KERNEL(usqr_f32),
    KERNEL(usqr_f64),      KERNEL(uneg_f32),     KERNEL(cast_f32_f64),       KERNEL(badd_f32),
    KERNEL(bsub_f32),      KERNEL(bmul_f32),     KERNEL(bdiv_f32),           KERNEL(fast_sum_f32),
    KERNEL(fast_sum_f64),  KERNEL(copy2d_f32),   KERNEL(fast_sum_small_f32), KERNEL(fast_sum_small_f64),
};

enum { NOT_FOUND = 500 };

int cuModuleLoadData(void **module, const void *image) {
    (void)image;
    *module = (void *)KERNELS;
    return 0;
}

int cuModuleUnload(void *module) {
    (void)module;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
        if (strcmp(KERNELS[i].name, name) == 0) {
            *function = (void *)&KERNELS[i].run;
            return 0;
        }
    fprintf(stderr, "%s is none of the kernels in tools/cuda/kernels.c\n", name);
    return NOT_FOUND;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    int before = cuStreamSynchronize(stream);
    if (before == 0) (*(kernel *)function)(params);
    return before;
}

int cuGetErrorName(int error, const char **name) {
    *name = error == 0 ? "CUDA_SUCCESS" : error == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR";
    return 0;
}

/* Candle makes these with every device. What they are for is not here. */
static char nothing;
int cublasCreate_v2(void **handle) { return *handle = &nothing, 0; }
int cublasSetStream_v2(void *handle, void *stream) { return (void)handle, (void)stream, 0; }
int cublasDestroy_v2(void *handle) { return (void)handle, 0; }
int curandCreateGenerator(void **generator, int kind) { return *generator = &nothing, (void)kind, 0; }
int curandSetStream(void *generator, void *stream) { return (void)generator, (void)stream, 0; }
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed) { return (void)generator, (void)seed, 0; }
int curandDestroyGenerator(void *generator) { return (void)generator, 0; }
