/* Reductions of 16-bit floats, which plain MPI does not have: widen, combine, round to even. */
#include "peer.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline float widen_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float wide;
    memcpy(&wide, &bits, 4);
    return wide;
}

static inline uint16_t round_bf16(float wide) {
    uint32_t bits;
    memcpy(&bits, &wide, 4);
    uint32_t even = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)(wide != wide ? 0x7fc0 : even);
}

#define SUM_OF(a, b) ((a) + (b))
#define PRODUCT_OF(a, b) ((a) * (b))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

#define BF16_OP(name, COMBINE)                                                       \
    static void bf16_##name(void *from, void *into, int *count, MPI_Datatype *type) { \
        const uint16_t *restrict a = from;                                           \
        uint16_t *restrict b = into;                                                 \
        (void)type;                                                                  \
        for (int i = 0; i < *count; i++)                                             \
            b[i] = round_bf16(COMBINE(widen_bf16(a[i]), widen_bf16(b[i])));          \
    }

#define F16_OP(name, COMBINE, VECTORS)                                                        \
    static void f16_##name(void *from, void *into, int *count, MPI_Datatype *type) {          \
        const uint16_t *a = from;                                                             \
        uint16_t *b = into;                                                                   \
        int i = 0;                                                                            \
        (void)type;                                                                           \
        for (; i + 8 <= *count; i += 8) {                                                     \
            __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(a + i)));            \
            __m256 y = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(b + i)));            \
            _mm_storeu_si128((__m128i *)(b + i),                                              \
                             _mm256_cvtps_ph(VECTORS(x, y), _MM_FROUND_TO_NEAREST_INT));      \
        }                                                                                     \
        for (; i < *count; i++)                                                               \
            b[i] = _cvtss_sh(COMBINE(_cvtsh_ss(a[i]), _cvtsh_ss(b[i])), _MM_FROUND_TO_NEAREST_INT); \
    }

BF16_OP(sum, SUM_OF)
BF16_OP(product, PRODUCT_OF)
BF16_OP(min, MIN_OF)
BF16_OP(max, MAX_OF)
F16_OP(sum, SUM_OF, _mm256_add_ps)
F16_OP(product, PRODUCT_OF, _mm256_mul_ps)
F16_OP(min, MIN_OF, _mm256_min_ps)
F16_OP(max, MAX_OF, _mm256_max_ps)

static MPI_User_function *const functions[2][REDUCES] = {
    {f16_sum, f16_product, f16_min, f16_max},
    {bf16_sum, bf16_product, bf16_min, bf16_max},
};

MPI_Op half_op(const struct dtype *dtype, enum reduce reduce) {
    static MPI_Op made[2][REDUCES];
    static bool is_made[2][REDUCES];
    int row = dtype->kind == BF16;
    if (!is_made[row][reduce]) {
        MPI_Op_create(functions[row][reduce], 1, &made[row][reduce]);
        is_made[row][reduce] = true;
    }
    return made[row][reduce];
}
