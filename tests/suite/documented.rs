//! The Rust code of CONTRIBUTING.md and docs that stands nowhere else: it compiles as it is printed, which
//! `tests/python/test_docs.py` compares.

#![expect(dead_code, reason = "compiled, to be compared with what is printed")]

use madelung::op::{Arg, Op, Request};

madelung::kernels! {
    #[func]
    fn screened(r: Real, alpha: Real) -> Real { erfc(alpha * r) / r }

    #[kernel(fast(positions))]
    pub fn real_space(
        i: Atom,
        positions: &[Vec3; Atom], charges: &[Real; Atom],
        cell: &[Mat3; System], alpha: &[Real; System],
        cutoff: Real,
        atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let r = length(positions[j] - positions[i] + shift * cell[b]);
            if r < cutoff { e += charges[j] * screened(r, alpha[b]); }
        }
        energy[i] = 0.5 * charges[i] * e;
    }
}

madelung::kernels! {
    #[kernel]
    fn average(
        i: Atom,
        positions: &[Vec3; Atom], features: &[[Real; Feature]; Atom],
        width: Real, eps: Real,
        pairs: &Pairs<Atom>,
        out: &mut [[Real; Feature]; Atom],
    ) {
        let mut s = [0.0; Feature];
        let mut norm = 0.0;
        for (j, shift) in pairs.row(i) {
            let w = exp(-length(positions[j] - positions[i]) / width);
            norm += w;
            for c in Feature { s[c] += w * features[j][c]; }
        }
        for c in Feature { out[i][c] = s[c] / (norm + eps); }
    }
}

const CAPACITY: i32 = 1;

madelung::kernels! {
    #[kernel(no_adjoint)]
    fn bins(i: Point, x: &[Real; Point], width: Real, counts: &mut [i32; Bin], first: &mut [i32; Bin]) {
        let mut c = floor(x[i] / width) as i64;
        while c < 0 { c += counts.len(); }
        let before = atomic_add(counts[c], 1);
        if before == 1000 { raise(CAPACITY, counts); return; }
        atomic_min(first[c], i as i64);
    }
}

#[expect(unsafe_code, reason = "a stream of the caller's, as the page says")]
fn on_a_device(op: &Op, args: Vec<Arg<'_>>, request: Request<'_, '_>, raw: usize) -> madelung::Result<()> {
    use madelung::backend::Context;
    use madelung::cuda::{Cuda, Device, Memory, check};

    let device = Device::get(0)?;
    // SAFETY: a stream of this device, which outlives the calls; 0 is the default one.
    let stream = unsafe { device.stream(raw)? };
    let memory = Memory::new(stream);
    let cuda = Cuda::new(stream);
    let context = Context { allocator: &memory, ..Context::new(&cuda) };
    let done = op.evaluate(&context, &args, &request)?; // queued; nothing is waited for
    let energies = stream.read(&done.values[0].view())?; // waits
    check(device)?; // what calls since the last look have found
    drop(energies);
    Ok(())
}
