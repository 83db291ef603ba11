//! Three small integers in one of 32 bits.

/// The largest magnitude of each component that has room.
const MOST: [i32; 3] = [511, 1023, 1023];
/// Bits behind the second component, and behind the first.
pub const BITS: [i32; 2] = [11, 22];
/// Half the range of the last two components, which makes them positive.
pub const HALF: i32 = 1024;
/// The halves of both, in their places.
pub const BIAS: i32 = HALF << BITS[0] | HALF;
/// The bits of one of the last two.
pub const MASK: i32 = 2 * HALF - 1;

/// Whether triples whose components do not pass `most` (in magnitude) have room in one integer.
pub fn fits(most: [i32; 3]) -> bool {
    (0..3).all(|k| most[k] <= MOST[k])
}

/// x · 2²² + y · 2¹¹ + z. Packed triples add and negate like the triples themselves, zero is zero, and their order is the
/// lexicographic one. Triples that do not [fit](fits) come out as other ones.
pub const fn pack([x, y, z]: [i32; 3]) -> i32 {
    (x << BITS[1]).wrapping_add(y << BITS[0]).wrapping_add(z)
}

/// The triple that was packed.
pub const fn unpack(packed: i32) -> [i32; 3] {
    let biased = packed.wrapping_add(BIAS);
    [biased >> BITS[1], (biased >> BITS[0] & MASK) - HALF, (biased & MASK) - HALF]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_triples_are_themselves_again_add_and_keep_their_order() {
        let range = |most: i32| [-most, -most / 2 - 1, -1, 0, 1, most / 3, most];
        let all: Vec<[i32; 3]> = range(511)
            .into_iter()
            .flat_map(|x| range(1023).into_iter().flat_map(move |y| range(1023).map(|z| [x, y, z])))
            .collect();
        for a in &all {
            assert_eq!(unpack(pack(*a)), *a);
            assert_eq!(pack(a.map(|c| -c)), -pack(*a));
            for b in &all {
                assert_eq!(pack(*a).cmp(&pack(*b)), a.cmp(b), "{a:?} and {b:?}");
                let sum: [i32; 3] = std::array::from_fn(|k| a[k] + b[k]);
                if fits(sum.map(i32::abs)) {
                    assert_eq!(unpack(pack(*a) + pack(*b)), sum);
                }
            }
        }
        assert!(fits(MOST) && !fits([512, 0, 0]) && !fits([0, 1024, 0]) && !fits([0, 0, 1024]));
    }
}
