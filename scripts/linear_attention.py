#!/usr/bin/env python3
"""linear_attention - RoPE with attention at linear cost (RoFormer, arXiv:2104.09864, equation 19): phi(q) and phi(k) are
rotated in the numerator, the denominator stays as it is. Computes it twice, from all pairs of tokens, which is quadratic,
and from a running sum of d x d numbers; prints how far the two are apart, and what the sum costs."""
import math
import random

N, D, THETA = 64, 8, 10000.0


def phi(x):
    return [a + 1 if a > 0 else math.exp(a) for a in x]  # elu + 1: positive


def rotate(x, pos):
    out = []
    for i in range(0, D, 2):
        a = pos * THETA ** (-i / D)
        out += [x[i] * math.cos(a) - x[i + 1] * math.sin(a), x[i] * math.sin(a) + x[i + 1] * math.cos(a)]
    return out


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def main():
    random.seed(1)
    q, k, v = ([[random.gauss(0, 1) for _ in range(D)] for _ in range(N)] for _ in range(3))
    q, k = [phi(x) for x in q], [phi(x) for x in k]
    rotated_q, rotated_k = ([rotate(x, m) for m, x in enumerate(rows)] for rows in (q, k))
    pairs = []
    for m in range(N):
        bottom = sum(dot(q[m], k[n]) for n in range(m + 1))
        weights = [dot(rotated_q[m], rotated_k[n]) / bottom for n in range(m + 1)]
        pairs.append([sum(w * v[n][j] for n, w in enumerate(weights)) for j in range(D)])
    total, keys, worst = [[0.0] * D for _ in range(D)], [0.0] * D, 0.0
    for m in range(N):
        for i in range(D):
            keys[i] += k[m][i]
            for j in range(D):
                total[i][j] += rotated_k[m][i] * v[m][j]
        bottom = dot(q[m], keys)
        for j in range(D):
            worst = max(worst, abs(sum(rotated_q[m][i] * total[i][j] for i in range(D)) / bottom - pairs[m][j]))
    print(f"{N} tokens, {D} features: all pairs {N * (N + 1) // 2 * 2 * D} products, running sum {N * 2 * D * D}")
    print(f"largest difference {worst:.1e}")


main()
