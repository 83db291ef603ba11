#!/usr/bin/env python3
"""Fits the polynomials and quotients behind crates/language/lanes/src/lanes and prints coefficients.rs.

    python3 -m venv .venv && .venv/bin/pip install mpmath gmpy2
    .venv/bin/python tools/fit_special_functions.py > crates/language/lanes/src/lanes/coefficients.rs
    rustfmt --edition 2024 --config max_width=110,use_small_heuristics=Max crates/language/lanes/src/lanes/coefficients.rs
    .venv/bin/python tools/fit_special_functions.py --powers      the polynomials of inverse powers, as statements
    .venv/bin/python tools/fit_special_functions.py --references > crates/language/lanes/src/lanes/tests/mpmath_values.inc

One routine makes them all: a weighted least-squares fit whose weights grow where the error is large (Lawson),
which ends close to the minimax solution. Quotients are linearised with the denominator of the step before.
Everything runs with 60 digits; nothing is random, so the file comes out the same every time.
"""

import sys

import mpmath as mp

mp.mp.dps = 60


def chebyshev_points(low, high, count):
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle + half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / count) for i in range(count)]


def evaluate(coefficients, x):
    return mp.polyval(coefficients[::-1], x)


def fit(points, values, tolerance, top, bottom=0, steps=14):
    """P/Q of the degrees top and bottom (Q(0) = 1) with the least max |P/Q - value| / tolerance over the points."""
    columns = top + bottom + 1
    weight = [mp.mpf(1)] * len(points)
    below = [mp.mpf(1)] * len(points)
    best = None
    for _ in range(steps):
        matrix, target = mp.matrix(len(points), columns), mp.matrix(len(points), 1)
        for i, (x, value) in enumerate(zip(points, values)):
            scale = mp.sqrt(weight[i]) / (below[i] * tolerance[i])
            for j in range(top + 1):
                matrix[i, j] = scale * x**j
            for j in range(bottom):
                matrix[i, top + 1 + j] = -scale * value * x ** (j + 1)
            target[i] = scale * value
        norms = [mp.sqrt(mp.fsum(matrix[i, j] ** 2 for i in range(len(points)))) for j in range(columns)]
        for j in range(columns):
            for i in range(len(points)):
                matrix[i, j] /= norms[j]
        solution = mp.qr_solve(matrix, target)[0]
        solution = [solution[j] / norms[j] for j in range(columns)]
        p, q = solution[: top + 1], [mp.mpf(1)] + solution[top + 1 :]
        below = [evaluate(q, x) for x in points]
        errors = [abs(evaluate(p, x) / d - v) / t for x, d, v, t in zip(points, below, values, tolerance)]
        worst = max(errors)
        if best is None or worst < best[0]:
            best = (worst, p, q)
        weight = [w * (e + worst / 50) / worst for w, e in zip(weight, errors)]
        mean = mp.fsum(weight) / len(weight)
        weight = [w / mean for w in weight]
    return best


def erfcx(degree, end):
    """erfc(x)·exp(x²) = P/Q on [0, end]; every coefficient is positive, so nothing cancels in either sum."""
    k = mp.mpf(2)
    points = [k * (1 + t) / (1 - t) for t in chebyshev_points(mp.mpf(-1), (end - k) / (end + k), 90)]
    values = [mp.exp(x * x) * mp.erfc(x) for x in points]
    error, p, q = fit(points, values, values, degree - 1, degree)
    assert min(p + q) > 0
    return error, p, q


def exp(degree, parts=1):
    """1 + r + r²·P(r) on |r| ≤ ln2/2/parts."""
    end = mp.log(2) / 2 / parts * mp.mpf("1.0001")
    points = chebyshev_points(-end, end, 60)
    values = [(mp.exp(r) - 1 - r) / r**2 for r in points]
    error, p, _ = fit(points, values, [mp.exp(r) / r**2 for r in points], degree - 2)
    return error, [mp.mpf(1), mp.mpf(1)] + p


def sin(degree):
    """r + r³·P(r²) on |r| ≤ π/4."""
    points = chebyshev_points(mp.mpf(0), (mp.pi / 4 * mp.mpf("1.0001")) ** 2, 50)
    values = [(mp.sin(mp.sqrt(u)) - mp.sqrt(u)) / mp.sqrt(u) ** 3 for u in points]
    error, p, _ = fit(points, values, [mp.sin(mp.sqrt(u)) / mp.sqrt(u) ** 3 for u in points], degree)
    return error, p


def cos(degree):
    """1 - r²/2 + r⁴·P(r²) on |r| ≤ π/4."""
    points = chebyshev_points(mp.mpf(0), (mp.pi / 4 * mp.mpf("1.0001")) ** 2, 50)
    values = [(mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2 for u in points]
    error, p, _ = fit(points, values, [1 / u**2 for u in points], degree)
    return error, p


def ln(degree):
    """ln((1+s)/(1-s)) = 2s + s³·P(s²) for arguments in [√½, √2]."""
    end = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf("1.0001")
    points = chebyshev_points(mp.mpf(0), end**2, 50)
    logs = [2 * mp.atanh(mp.sqrt(u)) for u in points]
    values = [(v - 2 * mp.sqrt(u)) / mp.sqrt(u) ** 3 for u, v in zip(points, logs)]
    error, p, _ = fit(points, values, [v / mp.sqrt(u) ** 3 for u, v in zip(points, logs)], degree)
    return error, p


def erf(degree):
    """x·P(x²) on |x| ≤ ½."""
    points = chebyshev_points(mp.mpf(0), (mp.mpf("0.5") * mp.mpf("1.0001")) ** 2, 50)
    values = [mp.erf(mp.sqrt(u)) / mp.sqrt(u) for u in points]
    error, p, _ = fit(points, values, values, degree)
    return error, p


def atan(degree):
    """t + t³·P(t²) on |t| ≤ tan(π/8)."""
    points = chebyshev_points(mp.mpf(0), (mp.tan(mp.pi / 8) * mp.mpf("1.0001")) ** 2, 50)
    roots = [mp.sqrt(u) for u in points]
    values = [(mp.atan(t) - t) / t**3 for t in roots]
    error, p, _ = fit(points, values, [mp.atan(t) / t**3 for t in roots], degree)
    return error, p


def e1_entire(degree):
    """E₁(y) + ln y + γ in y − 1 for y ≤ 2."""
    points = chebyshev_points(mp.mpf(-1), mp.mpf(1), 60)
    values = [mp.e1(z + 1) + mp.log(z + 1) + mp.euler for z in points]
    return fit(points, values, [mp.mpf(1)] * len(points), degree)[1]


def e1_scaled(degree):
    """y·exp(y)·E₁(y) in (y − 7)/(y + 3) for y ≥ 2."""
    points = chebyshev_points(mp.mpf(-1), mp.mpf(1), 60)
    values = [y * mp.exp(y) * mp.e1(y) for y in ((7 + 3 * z) / (1 - z) for z in points)]
    return fit(points, values, values, degree)[1]


def lower_gamma(a, degree):
    """exp(x) ∫₀¹ t^(a−1) exp(−xt) dt = Σ xⁿ/(a (a + 1) … (a + n)) in x − 3/2 for x ≤ 3."""
    points = chebyshev_points(mp.mpf("-1.5"), mp.mpf("1.5"), 60)
    values = [mp.fsum((z + mp.mpf("1.5")) ** n / mp.rf(a, n + 1) for n in range(80)) for z in points]
    return fit(points, values, values, degree)[1]


def powers():
    """The polynomials of inverse powers, by Horner's rule."""
    half = mp.mpf(1) / 2
    for name, coefficients in [
        ("e1_entire", e1_entire(16)),
        ("e1_scaled", e1_scaled(22)),
        ("lower_gamma_odd", lower_gamma(9 * half, 14)),
        ("lower_gamma_even", lower_gamma(mp.mpf(5), 14)),
    ]:
        first, *others = (rounded(c, 53) for c in coefficients[::-1])
        print(f"{name}\n        let s = {first};")
        for c in others:
            print(f"        let s = z * s {'-' if c[0] == '-' else '+'} {c.removeprefix('-')};")


def split(value, widths):
    """value as a sum of parts of the given widths in bits: n·part is exact for small n, whether or not fma exists."""
    parts = []
    for width in widths:
        unit = mp.mpf(2) ** (mp.floor(mp.log(abs(value), 2)) - width + 1)
        parts.append(mp.nint(value / unit) * unit)
        value -= parts[-1]
    return parts


def rounded(value, bits):
    """value rounded to `bits` bits, in the fewest decimal digits that name it among doubles."""
    with mp.workprec(bits):
        return repr(float(+value))


def table(name, note, coefficients, bits):
    numbers = [rounded(c, bits) for c in coefficients]
    line = f"pub(super) const {name}: [f64; {len(numbers)}] = [{', '.join(numbers)}];"
    print(f"\n/// {note}")
    if len(line) <= 110:
        print(line)
    else:
        print(line[: line.index("= [") + 3])
        for number in numbers:
            print(f"    {number},")
        print("];")


def main():
    print("//! Coefficients, lowest power first. Made by tools/fit_special_functions.py: do not edit.")
    print('#![allow(clippy::approx_constant, reason = "a table of powers has √2 in it")]')
    for dtype, bits, parts, degrees, end, widths in [
        (
            "F64",
            53,
            8,
            dict(erfcx=10, exp=11, part=7, sin=5, cos=5, ln=6, erf=8, atan=10),
            mp.mpf(27),
            ((33, 53), (33, 33, 53)),
        ),
        (
            "F32",
            24,
            16,
            dict(erfcx=5, exp=6, part=3, sin=2, cos=2, ln=2, erf=4, atan=4),
            mp.mpf("10.2"),
            ((13, 24), (11, 11, 24)),
        ),
    ]:
        error, p, q = erfcx(degrees["erfcx"], end)
        note = (
            f"of erfc(x)·exp(x²) on [0, {mp.nstr(end, 4)}]; largest relative error of the quotient {mp.nstr(error, 2)}."
        )
        table(f"ERFCX_TOP_{dtype}", f"Numerator {note}", p, bits)
        table(f"ERFCX_BOTTOM_{dtype}", f"Denominator {note}", q, bits)
        error, p = exp(degrees["exp"])
        table(f"EXP_{dtype}", f"exp(r), |r| ≤ ln2/2; largest relative error {mp.nstr(error, 2)}.", p, bits)
        error, p = exp(degrees["part"], parts)
        table(
            f"EXP_PART_{dtype}", f"exp(r), |r| ≤ ln2/{2 * parts}; largest relative error {mp.nstr(error, 2)}.", p, bits
        )
        octave = [mp.mpf(2) ** (mp.mpf(i) / parts) for i in range(parts)]
        table(f"OCTAVE_{dtype}", "2^(i / its length).", octave, bits)
        error, p = sin(degrees["sin"])
        table(
            f"SIN_{dtype}",
            f"(sin r − r)/r³ in r², |r| ≤ π/4; largest relative error of sin {mp.nstr(error, 2)}.",
            p,
            bits,
        )
        error, p = cos(degrees["cos"])
        table(
            f"COS_{dtype}",
            f"(cos r − 1 + r²/2)/r⁴ in r², |r| ≤ π/4; largest error of cos {mp.nstr(error, 2)}.",
            p,
            bits,
        )
        error, p = ln(degrees["ln"])
        note = (
            f"(ln((1+s)/(1−s)) − 2s)/s³ in s², √½ ≤ (1+s)/(1−s) ≤ √2; largest relative error of ln {mp.nstr(error, 2)}."
        )
        table(f"LN_{dtype}", note, p, bits)
        error, p = erf(degrees["erf"])
        table(f"ERF_{dtype}", f"erf(x)/x in x², |x| ≤ ½; largest relative error {mp.nstr(error, 2)}.", p, bits)
        error, p = atan(degrees["atan"])
        note = f"(atan t − t)/t³ in t², |t| ≤ tan(π/8); largest relative error of atan {mp.nstr(error, 2)}."
        table(f"ATAN_{dtype}", note, p, bits)
        table(
            f"LN2_{dtype}",
            "ln 2 in parts; the first has so few bits that n·part is exact.",
            split(mp.log(2), widths[0]),
            bits,
        )
        table(
            f"HALF_PI_{dtype}",
            "π/2 in parts; the first two have so few bits that n·part is exact.",
            split(mp.pi / 2, widths[1]),
            bits,
        )


def references():
    """What the references of the tests are held against."""

    def close(call, value):
        high = float(value)
        print(f"    close({call}, ({high!r}, {float(value - high)!r}));")

    def gaussian(x):
        return mp.exp(-x * x)

    print("// Functions at a few points, as pairs of f64. Made by tools/fit_special_functions.py --references.\n{")
    for name, function, arguments in [
        ("erfc", mp.erfc, [0.25, 1.75, 2.0, 3.5, 6.0, 20.0, -1.5]),
        ("exp_neg_sq", gaussian, [0.5, 3.7, 20.25]),
        ("ln", mp.log, [1e-300, 0.3, 1.0000001, 7.5, 1e200]),
    ]:
        for x in arguments:
            close(f"{name}({x!r})", function(mp.mpf(x)))
    for x in [-600.5, -0.3, 12.25, 700.0]:
        close(f"exp(Double::from({x!r}))", mp.exp(x))
    for x in [0.4, 2.5, 1000.1, -99999.7, 123456789.0]:
        close(f"sin_cos({x!r}).0", mp.sin(x))
        close(f"sin_cos({x!r}).1", mp.cos(x))
    for x in [0.4, 1.75]:
        close(f"erf({x!r})", mp.erf(mp.mpf(x)))
    for x in [1e-5, -0.3, 2.5, 15.0]:
        close(f"tanh({x!r})", mp.tanh(mp.mpf(x)))
    for x in [-0.999, -0.3, 0.6, 0.9999]:
        close(f"asin({x!r})", mp.asin(mp.mpf(x)))
        close(f"acos({x!r})", mp.acos(mp.mpf(x)))
    for y, x in [(0.3, 2.0), (3.0, 0.7), (1e-5, -2.0), (-3.0, -2.5)]:
        close(f"atan2(Double::from({y!r}), Double::from({x!r}))", mp.atan2(mp.mpf(y), mp.mpf(x)))
    for x, e in [(2.3, -6.5), (1e-5, 30.25), (1.0001, 5e6)]:
        close(f"pow({x!r}, {e!r})", mp.power(x, e))
    print("}")


if __name__ == "__main__":
    asked = sys.argv[1:]
    powers() if "--powers" in asked else references() if "--references" in asked else main()
