/*
 * Numbers drawn from a Zipf law, for programs that choose pages or keys.
 *
 * Rejection-inversion (Hoermann and Derflinger 1996): no table, so the generator itself touches no
 * memory that would compete with what is chosen. THETA is any value >= 0; 0 is uniform.
 */
#include <math.h>

struct zipf {
    uint64_t count, stride;
    double theta, h_x1, h_n, s;
};

static double zipf_h(double theta, double x) { return exp(-theta * log(x)); }

static double zipf_integral(double theta, double x)
{
    double log_x = log(x), t = (1 - theta) * log_x;
    return (fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2) * log_x;
}

static double zipf_integral_inverse(double theta, double x)
{
    double t = x * (1 - theta);
    if (t < -1)
        t = -1;
    return exp((fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2) * x);
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    return b ? greatest_common_divisor(b, a % b) : a;
}

/* The law over COUNT > 0 numbers. */
static struct zipf zipf_new(uint64_t count, double theta)
{
    struct zipf law = {.count = count, .theta = theta};
    law.h_x1 = zipf_integral(theta, 1.5) - 1;
    law.h_n = zipf_integral(theta, (double)count + 0.5);
    law.s = 2 - zipf_integral_inverse(theta, zipf_integral(theta, 2.5) - zipf_h(theta, 2));
    /* Any stride coprime to the count is a permutation; this one scatters. */
    law.stride = (uint64_t)((double)count * 0.6180339887) | 1;
    while (greatest_common_divisor(law.stride, count) != 1)
        law.stride += 2;
    return law;
}

/* A rank in 1..count. */
static uint64_t zipf_rank(const struct zipf *law, uint64_t *random)
{
    for (;;) {
        double unit = (double)(next_random(random) >> 11) * 0x1p-53;
        double u = law->h_n + unit * (law->h_x1 - law->h_n);
        double x = zipf_integral_inverse(law->theta, u);
        double k = floor(x + 0.5);
        if (k < 1)
            k = 1;
        else if (k > (double)law->count)
            k = (double)law->count;
        if (k - x <= law->s || u >= zipf_integral(law->theta, k + 0.5) - zipf_h(law->theta, k))
            return (uint64_t)k;
    }
}

/* A number in 0..count-1; numbers that are drawn often are not neighbours. */
static uint64_t zipf_scattered(const struct zipf *law, uint64_t *random)
{
    uint64_t rank = law->theta > 0 ? zipf_rank(law, random) - 1 : random_below(random, law->count);
    return (uint64_t)((__uint128_t)rank * law->stride % law->count);
}
