//! The kernels under test.

use madelung_core::runtime::Kernel;

madelung_core::kernels! {
    #[func]
    fn squared(x: Real) -> Real { let y = x * x; y }

    #[func]
    fn wrapped(n: i32, m: i32) -> i32 { (n % m + m) % m }

    /// Points in cells: how many there are, and each one's place in the order of arrival.
    #[kernel(no_adjoint)]
    pub(crate) fn histogram(
        i: Point, x: &[Real; Point], width: Real,
        cell_of: &mut [i32; Point], counts: &mut [i32; Bin], largest: &mut i64, smallest: &mut [i64; Bin],
    ) {
        let c = wrapped(floor(x[i] / width) as i64, counts.len());
        cell_of[i] = c;
        let before = atomic_add(counts[c], 1);
        if before < 0 { raise(CAPACITY, counts); }
        atomic_max(*largest, i as i64 * i as i64);
        atomic_min(smallest[c], 0 - (i as i64));
    }

    /// The steps of the Collatz sequence from row + 1 down to 1, and its peak; at most `most`.
    #[kernel(no_adjoint)]
    pub(crate) fn collatz(i: Row, most: i32, steps: &mut [i32; Row], peak: &mut [i64; Row]) {
        let mut n = i as i64 + 1;
        let mut k = 0;
        let mut top = n;
        while n != 1 {
            if k == most { steps[i] = -1; return; }
            k += 1;
            if n % 2 == 0 { n /= 2; continue; }
            n = 3 * n + 1;
            top = max(top, n);
        }
        steps[i] = k;
        peak[i] = top;
    }

    /// Every operator on two integers.
    #[kernel(no_adjoint)]
    pub(crate) fn integers(i: Row, a: &[i64; Row], b: &[i64; Row], out: &mut [i64; Out]) {
        let x = a[i];
        let y = b[i];
        let mut k = 24 * (i as i64);
        out[k] = x + y; k += 1;
        out[k] = x - y; k += 1;
        out[k] = x * y; k += 1;
        let mut q = 0;
        let mut r = 0;
        if y != 0 { q = x / y; r = x % y; }
        out[k] = q; k += 1;
        out[k] = r; k += 1;
        out[k] = x & y; k += 1;
        out[k] = x | y; k += 1;
        out[k] = x ^ y; k += 1;
        out[k] = x << y; k += 1;
        out[k] = x >> y; k += 1;
        out[k] = -x; k += 1;
        out[k] = !x; k += 1;
        out[k] = abs(x); k += 1;
        out[k] = min(x, y); k += 1;
        out[k] = max(x, y); k += 1;
        out[k] = (x < y) as i64 + 2 * (x <= y) as i64 + 4 * (x > y) as i64 + 8 * (x >= y) as i64; k += 1;
        out[k] = (x == y) as i64 + 2 * (x != y) as i64 + 4 * ((x < 0) ^ (y < 0)) as i64; k += 1;
        let mut z = x;
        z += y; z -= 3; z *= y; z &= 12345; z |= 64; z ^= x; z <<= 3; z >>= 2; z %= 1000; z /= 7;
        out[k] = z; k += 1;
        out[k] = (x as Real) as i64; k += 1;
        out[k] = ((x as Real) * 2.0) as i64; k += 1;
        out[k] = wrapped(x, 9); k += 1;
        let flag = x > 0 || y > 0 && x != y;
        let other = !flag & true | (x == 0);
        out[k] = if flag { 1 } else if other == false { 2 } else { 3 }; k += 1;
        let mut i3 = 0;
        loop { i3 += 1; if i3 * i3 > 50 { break; } }
        out[k] = i3; k += 1;
        out[k] = k;
    }

    /// Reals, vectors and matrices as variables.
    #[kernel(no_adjoint)]
    pub(crate) fn reals(
        i: Atom, positions: &[Vec3; Atom], cell: &[Mat3; System], shifts: &[IVec3; Atom], atoms: &Batch<Atom, System>,
        g: &Real, scale: Real, out: &mut [Vec3; Atom], matrix: &mut [Mat3; System], numbers: &mut [Real; Out],
    ) {
        let b = atoms.of(i);
        let mut v = positions[i];
        v += shifts[i] * cell[b];
        v *= scale;
        v = v / 2.0 - cross(v, positions[i]);
        let mut s = shifts[i];
        s -= s + s;
        if s.x > 0 && dot(v, v) > 0.0 { v = -v; }
        out[i] = v + s as Vec3;
        out[i] += vec3(squared(g), 0.0, 0.0);
        matrix[b] = cell[b] * cell[b] * 2.0;
        let x = positions[i].x;
        let at = 8 * (i as i64);
        numbers[at] = floor(x) + nearest(x) + abs(x);
        numbers[at + 1] = sqrt(abs(x)) / length(row(cell[b], 1));
        numbers[at + 2] = pow(x, 3) + min(x, 1.0) - max(x, -1.0);
        numbers[at + 3] = if is_finite(1.0 / (x - x)) { 1.0 } else { PI };
        numbers[at + 4] = numbers[at] + 1.0;
        numbers[at + 5] = (atoms.of(i as i64) as i64) as Real;
        numbers[at + 6] = (floor(x) as i64) as Real;
        numbers[at + 7] = { let t = x; t * t };
    }

    /// Bubble sort of the row's own stretch, in an output that is read and written.
    #[kernel(no_adjoint)]
    pub(crate) fn bubble(
        i: Row, from: &[i32; Row], to: &[i32; Row], data: &[i32; Item], sorted: &mut [i32; Item],
    ) {
        for k in from[i]..to[i] { sorted[k] = data[k]; }
        let mut swapped = true;
        while swapped {
            swapped = false;
            for k in from[i] + 1..to[i] {
                if sorted[k - 1] <= sorted[k] { continue; }
                let lower = sorted[k];
                sorted[k] = sorted[k - 1];
                sorted[k - 1] = lower;
                swapped = true;
            }
        }
    }

    /// Pairs and members, with rows compared.
    #[kernel(no_adjoint)]
    pub(crate) fn lists(
        i: Atom, pairs: &Pairs<Atom>, atoms: &Batch<Atom, System>, x: &[Real; Atom],
        upper: &mut [i32; Atom], nearest_of: &mut [i64; Atom], members: &mut [i32; Atom], images: &mut [i64; Atom],
    ) {
        let mut best = -1.0;
        let mut who = i;
        upper[i] = 0;
        members[i] = 0;
        for (j, shift) in pairs.row(i) {
            if j > i { upper[i] += 1; }
            atomic_add(images[j], shift.x + 10 * shift.y + 100 * shift.z);
            let d = abs(x[j] - x[i]);
            if best < 0.0 || d < best { best = d; who = j; }
        }
        nearest_of[i] = who as i64;
        for k in atoms.members(atoms.of(i)) {
            if k == i { break; }
            members[i] += 1;
        }
    }

    /// A lookup that a short circuit guards.
    #[kernel(no_adjoint)]
    pub(crate) fn guarded(i: Row, at: &[i32; Row], table: &[Real; Entry], out: &mut [Real; Row]) {
        let k = at[i];
        let mut x = -1.0;
        if k >= 0 && k < table.len() && table[k] > 0.0 { x = table[k]; }
        out[i] = x;
    }

    /// A lookup without a guard: rows whose index is out of range end.
    #[kernel(no_adjoint)]
    pub(crate) fn unguarded(i: Row, at: &[i32; Row], table: &[Real; Entry], out: &mut [Real; Row]) {
        out[i] = 1.0;
        out[i] = table[at[i]];
    }

    /// Writes to where it is told.
    #[kernel(no_adjoint)]
    pub(crate) fn permute(i: Row, to: &[i64; Row], x: &[Real; Row], out: &mut [Real; Row]) { out[to[i]] = x[i]; }

    /// An i32 that is added to until it is full, and a quotient.
    #[kernel(no_adjoint)]
    pub(crate) fn narrow(i: Row, step: &[i64; Row], sum: &mut i32, last: &mut [i32; Row], quotient: &mut [i64; Row]) {
        if step[i] >= 0 { atomic_add(*sum, step[i]); }
        if step[i] == -1 { last[i] = 1 << 40; }
        quotient[i] = 100 / step[i];
    }

    /// Says that there is no room.
    #[kernel(no_adjoint)]
    pub(crate) fn full(i: Row, capacity: i32, used: &mut i32, slots: &mut [i32; Slot]) {
        let at = atomic_add(*used, 1);
        if at >= capacity { raise(CAPACITY, slots); return; }
        slots[at] = 1;
    }

    /// Arrays of every type that go on with what they hold.
    #[kernel(no_adjoint)]
    pub(crate) fn go_on(
        i: Point, x: &[Real; Point], bin: &[i32; Point], a: Real,
        y: &mut [InOut<Real>; Point], v: &mut [InOut<Vec3>; Point], m: &mut [InOut<Mat3>; Point],
        n: &mut [InOut<i32>; Point], wide: &mut [InOut<i64>; Point],
        counts: &mut [InOut<i32>; Bin], most: &mut InOut<i64>, one: &mut InOut<Real>,
    ) {
        y[i] = a * x[i] + y[i];
        v[i] -= vec3(x[i], y[i], 1.0);
        m[i] = m[i] * m[i] + m[i];
        if n[i] > 2 { n[i] *= 3; }
        wide[i] += n[i];
        atomic_add(counts[bin[i]], n[i]);
        atomic_max(*most, wide[i]);
        if i as i64 == 0 { *one = 2.0 * *one; }
    }

    /// For an op: the cell of each point, and what there is of each cell.
    #[kernel(no_adjoint)]
    pub(crate) fn cells(i: Point, x: &[Real; Point], width: Real, cell_of: &mut [i32; Point]) {
        cell_of[i] = floor(x[i] / width) as i64;
    }

    #[kernel(no_adjoint)]
    pub(crate) fn count(i: Point, cell_of: &[i32; Point], counts: &mut [i32; Bin]) {
        atomic_add(counts[cell_of[i]], 1);
    }
}

pub(crate) fn all() -> Vec<&'static Kernel> {
    vec![
        &HISTOGRAM, &COLLATZ, &INTEGERS, &REALS, &BUBBLE, &LISTS, &GUARDED, &UNGUARDED, &PERMUTE, &NARROW,
        &FULL, &CELLS, &COUNT, &GO_ON,
    ]
}
