//! The grid's kernels.
//!
//! All share the visit of every image of every point within a radius: a text that [`searching`] puts into each kernel.

madelung_core::kernels! {
    #[func]
    fn boxes(s: Real, n: i32) -> i32 { if n > 0 { floor(s) as i64 } else { 0 } }

    #[func]
    fn cell_along(s: Real, per: Real, n: i32) -> i32 {
        let c = floor(s * per) as i64;
        if n > 0 { max(0, min(c, n - 1)) } else { c }
    }

    /// Cells along the last axis lie in buckets that follow each other; `buckets` is a power of two.
    #[func]
    fn bucket_of(b: i32, x: i32, y: i32, z: i32, buckets: i32) -> i32 {
        let h = ((b * 2971215073 + x) * 6364136223846793005 + y) * 3935559000370003845;
        ((h ^ (h >> 29)) + z) & (buckets - 1)
    }

    /// Moves points into their cells along the periodic axes, and says which cell of the grid each one is in.
    #[kernel(no_adjoint)]
    pub(super) fn grid_place(
        i: Point, r: &[Vec3; Point], points: &Batch<Point, System>,
        rows: &[Mat3; System], inverse: &[Mat3; System], per: &[Vec3; System], cells: &[IVec3; System],
        buckets: i32,
        s: &mut [Vec3; Point], wrap: &mut [i32; Component], cell: &mut [i64; Component], bucket: &mut [i32; Point],
    ) {
        let b = points.of(i);
        let n = cells[b];
        let f = r[i] * inverse[b];
        let wx = boxes(f.x, n.x);
        let wy = boxes(f.y, n.y);
        let wz = boxes(f.z, n.z);
        let m = rows[b];
        let u = (r[i] - ((wx as Real) * row(m, 0) + (wy as Real) * row(m, 1) + (wz as Real) * row(m, 2))) * inverse[b];
        // An i32 shift has room for the way to another point, and a cell a number that reals count exactly.
        let far = max(max(abs(wx), abs(wy)), abs(wz)) > 536870912;
        let p = per[b];
        let most = max(max(abs(u.x * p.x), abs(u.y * p.y)), abs(u.z * p.z));
        if far || !(most < 1e15) { raise(OVERFLOW, r); return; }
        s[i] = u;
        let at = 3 * (i as i64);
        wrap[at] = wx;
        wrap[at + 1] = wy;
        wrap[at + 2] = wz;
        let cx = cell_along(u.x, p.x, n.x);
        let cy = cell_along(u.y, p.y, n.y);
        let cz = cell_along(u.z, p.z, n.z);
        cell[at] = cx;
        cell[at + 1] = cy;
        cell[at + 2] = cz;
        bucket[i] = bucket_of(b as i64, cx, cy, cz, buckets);
    }

    /// Entries in another order.
    #[kernel(no_adjoint)]
    pub(super) fn grid_reorder(
        p: Pair, order: &[i64; Pair], found: &[i32; Pair], found_shift: &[IVec3; Pair],
        other: &mut [i32; Pair], shift: &mut [i32; Component],
    ) {
        let k = order[p];
        other[p] = found[k];
        let t = found_shift[k];
        let at = 3 * (p as i64);
        shift[at] = t.x;
        shift[at + 1] = t.y;
        shift[at + 2] = t.z;
    }
}

/// A kernel that goes through every (j, S) with d = |r_j − q_i + S · cell| ≤ `radius`, each once and, for each j, in the
/// order of S: `start` declares `radius`; `visit` sees `j`, `tx`, `ty`, `tz` (S) and `d`; `end` leaves the loop, or lets
/// it begin again with another radius.
///
/// Cells within reach are looked at one by one, or all points are, whichever are fewer: a radius of many cells costs
/// no more than there are points.
macro_rules! searching {
    (
        $(#[doc = $doc:literal])* $name:ident($($params:tt)*)
        start { $($start:tt)* } visit { $($visit:tt)* } end { $($end:tt)* }
    ) => { madelung_core::kernels! {
        #[func]
        fn bucket_of(b: i32, x: i32, y: i32, z: i32, buckets: i32) -> i32 {
            let h = ((b * 2971215073 + x) * 6364136223846793005 + y) * 3935559000370003845;
            ((h ^ (h >> 29)) + z) & (buckets - 1)
        }

        /// ⌊a / n⌋ for n > 0.
        #[func]
        fn floor_div(a: i32, n: i32) -> i32 { let m = max(n, 1); (a - ((a % m + m) % m)) / m }

        #[func]
        fn first(n: i32, s: Real) -> i32 { if n > 0 { -(floor(-s) as i64) } else { 0 } }

        #[func]
        fn end(n: i32, s: Real) -> i32 { if n > 0 { floor(s) as i64 + 1 } else { 1 } }

        #[func]
        fn images(n: i32, f: Real) -> Real { if n > 0 { 2.0 * f + 1.0 } else { 1.0 } }

        $(#[doc = $doc])*
        #[kernel(no_adjoint)]
        pub(super) fn $name(
            i: Query, q: &[Vec3; Query], query_s: &[Vec3; Query], query_wrap: &[i32; QueryComponent],
            queries: &Batch<Query, System>, points: &Batch<Point, System>,
            r: &[Vec3; Point], s: &[Vec3; Point], wrap: &[i32; Component], cell: &[i64; Component],
            order: &[i32; Point], bounds: &[i32; Bound],
            rows: &[Mat3; System], heights: &[Vec3; System], per: &[Vec3; System], cells: &[IVec3; System],
            margin: &[Vec3; System], number: &[i32; System], slack: &[Real; System], grow: &[Real; System],
            $($params)*
        ) {
            let b = queries.of(i);
            let here = q[i];
            let u = query_s[i];
            let own = 3 * (i as i64);
            let ox = query_wrap[own];
            let oy = query_wrap[own + 1];
            let oz = query_wrap[own + 2];
            let m = rows[b];
            let n = cells[b];
            let g = per[b];
            let buckets = bounds.len() - 1;
            $($start)*
            loop {
                let reach = radius * grow[b] + slack[b];
                let fx = reach / heights[b].x + margin[b].x;
                let fy = reach / heights[b].y + margin[b].y;
                let fz = reach / heights[b].z + margin[b].z;
                let lx = floor((u.x - fx) * g.x);
                let ly = floor((u.y - fy) * g.y);
                let lz = floor((u.z - fz) * g.z);
                let hx = floor((u.x + fx) * g.x);
                let hy = floor((u.y + fy) * g.y);
                let hz = floor((u.z + fz) * g.z);
                let near = (hx - lx + 1.0) * (hy - ly + 1.0) * (hz - lz + 1.0);
                let all = (number[b] as Real) * images(n.x, fx) * images(n.y, fy) * images(n.z, fz);
                if near < all {
                    for cx in lx as i64..hx as i64 + 1 {
                        let sx = if n.x > 0 { floor_div(cx, n.x) } else { 0 };
                        let kx = cx - sx * n.x;
                        for cy in ly as i64..hy as i64 + 1 {
                            let sy = if n.y > 0 { floor_div(cy, n.y) } else { 0 };
                            let ky = cy - sy * n.y;
                            for cz in lz as i64..hz as i64 + 1 {
                                let sz = if n.z > 0 { floor_div(cz, n.z) } else { 0 };
                                let kz = cz - sz * n.z;
                                let bucket = bucket_of(b as i64, kx, ky, kz, buckets);
                                for p in bounds[bucket]..bounds[bucket + 1] {
                                    let j = order[p];
                                    let at = 3 * j;
                                    // Other cells, and other systems, may share the bucket.
                                    if cell[at] != kx || cell[at + 1] != ky || cell[at + 2] != kz { continue; }
                                    if points.of(j) != b { continue; }
                                    let tx = sx + ox - wrap[at];
                                    let ty = sy + oy - wrap[at + 1];
                                    let tz = sz + oz - wrap[at + 2];
                                    let t = (tx as Real) * row(m, 0) + (ty as Real) * row(m, 1) + (tz as Real) * row(m, 2);
                                    let d = length((r[j] - here) + t);
                                    if d <= radius { $($visit)* }
                                }
                            }
                        }
                    }
                } else {
                    for member in points.members(b) {
                        let j = member as i64;
                        let at = 3 * j;
                        let v = s[member];
                        for sx in first(n.x, u.x - fx - v.x)..end(n.x, u.x + fx - v.x) {
                            for sy in first(n.y, u.y - fy - v.y)..end(n.y, u.y + fy - v.y) {
                                for sz in first(n.z, u.z - fz - v.z)..end(n.z, u.z + fz - v.z) {
                                    let tx = sx + ox - wrap[at];
                                    let ty = sy + oy - wrap[at + 1];
                                    let tz = sz + oz - wrap[at + 2];
                                    let t = (tx as Real) * row(m, 0) + (ty as Real) * row(m, 1) + (tz as Real) * row(m, 2);
                                    let d = length((r[j] - here) + t);
                                    if d <= radius { $($visit)* }
                                }
                            }
                        }
                    }
                }
                $($end)*
            }
        }
    } };
}

searching! {
    /// The number of points within a radius.
    grid_count(within: Real, found: &mut [i64; Query])
    start { let radius = within; let mut k = 0; }
    visit { k += 1; }
    end { found[i] = k; break; }
}

searching! {
    /// All within a radius, row after row; for each the key that sorts by row and then by point.
    grid_fill(
        within: Real, ptr: &[i64; Offset], other: &mut [i32; Pair], shift: &mut [i32; PairComponent],
        key: &mut [i64; Pair],
    )
    start { let radius = within; let mut k = ptr[i as i64]; }
    visit {
        other[k] = j;
        shift[3 * k] = tx;
        shift[3 * k + 1] = ty;
        shift[3 * k + 2] = tz;
        key[k] = (i as i64) << 32 | j;
        k += 1;
    }
    end { break; }
}

searching! {
    /// The k nearest, by distance, then point, then S. `begin`: the first radius tried; `limit`: the last one, within
    /// which every point lies.
    grid_closest(
        k: i32, begin: &[Real; System], limit: &[Real; System],
        found: &mut [i32; Query], index: &mut [i32; Found], distance: &mut [Real; Found], shift: &mut [i32; FoundComponent],
    )
    start {
        let base = k * (i as i64);
        let mut radius = begin[b];
        let mut have = 0;
        if k == 0 || number[b] == 0 { return; }
    }
    visit {
        // Insertion into the sorted list: farther points move up, and the last one drops out.
        let mut p = have;
        while p > 0 {
            let o = base + p - 1;
            let e = distance[o];
            let w = index[o];
            let x = shift[3 * o];
            let y = shift[3 * o + 1];
            let z = shift[3 * o + 2];
            if !(d < e || d == e && (j < w || j == w && (tx < x || tx == x && (ty < y || ty == y && tz < z)))) { break; }
            if p < k {
                distance[o + 1] = e;
                index[o + 1] = w;
                shift[3 * o + 3] = x;
                shift[3 * o + 4] = y;
                shift[3 * o + 5] = z;
            }
            p -= 1;
        }
        if p < k {
            let o = base + p;
            distance[o] = d;
            index[o] = j;
            shift[3 * o] = tx;
            shift[3 * o + 1] = ty;
            shift[3 * o + 2] = tz;
            have = min(have + 1, k);
        }
    }
    end {
        // All within the radius were seen, so the nearest k of them are the nearest of all.
        if have == k || radius >= limit[b] { found[i] = have; break; }
        radius = min(2.0 * radius, limit[b]);
        have = 0;
    }
}
