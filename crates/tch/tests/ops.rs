//! Every op of the library: values have the bits of the facade's, and derivatives by tch to second order are
//! differences of values and of derivatives of first order.

mod arguments;
#[path = "../../../tests/common/mod.rs"]
mod common;

use arguments::Arguments;
use common::numeric::{richardson, rms};
use common::systems::SplitMix64;
use madelung::Result;
use madelung::op::ArgKind;
use tch::{Kind, Tensor};

/// The step of differences: few pairs are so near to a cutoff that they would cross it. Of positions about 0.6 apart
/// errors of sixth order are nothing, and those of rounding 1e-11.
const STEP: f64 = 2e-4;

/// Numbers of the same shapes as others.
fn random(seed: u64, like: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut rng = SplitMix64(seed);
    like.iter().map(|x| x.iter().map(|_| rng.uniform(-0.5, 0.5)).collect()).collect()
}

fn dot(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(x, y)| x * y).sum()
}

fn plus(x: &[Vec<f64>], h: f64, u: &[Vec<f64>]) -> Vec<Vec<f64>> {
    x.iter().zip(u).map(|(x, u)| x.iter().zip(u).map(|(x, u)| x + h * u).collect()).collect()
}

fn numbers(tensors: &[Tensor]) -> Vec<Vec<f64>> {
    tensors.iter().map(|x| Vec::try_from(x.flatten(0, -1)).expect("numbers")).collect()
}

fn leaf(x: &[f64], like: &Tensor) -> Tensor {
    Tensor::from_slice(x).reshape(like.size()).detach().set_requires_grad(true)
}

fn leaves(x: &[Vec<f64>], like: &[Tensor]) -> Vec<Tensor> {
    x.iter().zip(like).map(|(x, like)| leaf(x, like)).collect()
}

fn contracted(a: &[Tensor], b: &[Tensor]) -> Tensor {
    a.iter().zip(b).map(|(a, b)| (a * b).sum(Kind::Double)).reduce(|a, b| a + b).expect("a tensor")
}

/// A difference in units of `scale`, against a bound.
fn check(what: &str, got: f64, want: f64, scale: f64, bound: f64) {
    let error = (got - want).abs() / scale;
    assert!(error <= bound, "{what}: {got} against {want}, {error:.1e} of {scale}");
}

/// A call of an op at a point, with weights of its outputs and directions of its arguments.
struct Case {
    of: Arguments,
    x: Vec<Vec<f64>>,
    w: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    z: Vec<Vec<f64>>,
    /// The name of each real argument, whether it is that of a strain, and whether it is strained.
    names: Vec<String>,
    is_strain: Vec<bool>,
    is_strained: Vec<bool>,
}

/// Tensors of a call.
struct Recorded {
    x: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl Case {
    fn new(of: Arguments) -> Self {
        let reals = of.reals();
        let x: Vec<Vec<f64>> = reals.iter().map(|n| of.values(*n).to_vec()).collect();
        let outputs = of.facade();
        let real = outputs.iter().filter(|array| array.dtype().is_real());
        let like: Vec<Vec<f64>> = real.map(|array| array.to_f64().unwrap()).collect();
        let spec = |n: &usize| &of.op.args[*n];
        let is_strain: Vec<bool> =
            reals.iter().map(|n| matches!(spec(n).kind, ArgKind::Real { zero: true, .. })).collect();
        let is_strained = reals.iter().zip(&is_strain).map(|(n, is)| spec(n).geometry && !is).collect();
        let still = |mut u: Vec<Vec<f64>>| {
            u.iter_mut().zip(&is_strain).filter(|(_, is)| **is).for_each(|(u, _)| u.fill(0.0));
            u
        };
        let names = reals.iter().map(|n| spec(n).name.clone()).collect();
        let (w, v, z) = (random(1, &like), still(random(2, &x)), still(random(3, &x)));
        Self { w, v, z, x, names, is_strain, is_strained, of }
    }

    /// The real outputs at a point.
    fn recorded(&self, x: &[Vec<f64>]) -> Result<Recorded> {
        let tensors = self.of.tensors(x);
        let outputs = madelung_tch::call(&self.of.op, self.of.inputs(&tensors))?;
        let outputs = outputs.into_iter().filter(|y| y.kind() == Kind::Double).collect();
        let x = tensors.into_iter().flatten().filter(Tensor::requires_grad).collect();
        Ok(Recorded { x, outputs })
    }

    /// The values of the real outputs at a point.
    fn values(&self, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        numbers(&self.recorded(x).expect("values").outputs)
    }

    /// ∇ₓ⟨w, outputs⟩ at a point.
    fn gradient(&self, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let at = self.recorded(x).expect("values");
        let weighted = contracted(&at.outputs, &leaves(&self.w, &at.outputs));
        numbers(&Tensor::run_backward(&[&weighted], &at.x.iter().collect::<Vec<_>>(), false, false))
    }

    /// The direction `u` of one argument.
    fn only(&self, n: usize, u: &[Vec<f64>]) -> Vec<Vec<f64>> {
        u.iter().enumerate().map(|(k, u)| if k == n { u.clone() } else { vec![0.0; u.len()] }).collect()
    }

    /// Numbers with vectors of strained arguments multiplied by 1 + hε.
    fn strained(&self, x: &[Vec<f64>], h: f64, strain: &[f64]) -> Vec<Vec<f64>> {
        let of = |(n, x): (usize, &Vec<f64>)| {
            if !self.is_strained[n] {
                return x.clone();
            }
            // Rows of a system follow each other.
            let of_system = x.len() / 3 / (strain.len() / 9);
            let of = |(i, r): (usize, &[f64])| {
                let e = &strain[i / of_system * 9..][..9];
                [0, 1, 2].map(|b| r[b] + h * (0..3).map(|a| r[a] * e[3 * a + b]).sum::<f64>())
            };
            x.chunks_exact(3).enumerate().flat_map(of).collect()
        };
        x.iter().enumerate().map(of).collect()
    }

    fn check(&self) {
        let name = self.of.op.full_name();
        let weight = self.w.iter().flatten().map(|w| w * w).sum::<f64>().sqrt();
        let at = self.recorded(&self.x).expect("values");
        let x: Vec<&Tensor> = at.x.iter().collect();
        let w = leaves(&self.w, &at.outputs);
        let g = Tensor::run_backward(&[&contracted(&at.outputs, &w)], &x, true, true);
        let first = numbers(&g);

        let norm = |x: &[f64]| rms(x) * (x.len() as f64).sqrt();
        for (n, arg) in self.names.iter().enumerate().filter(|(n, _)| !self.is_strain[*n]) {
            let u = self.only(n, &self.v);
            let along = |h| dot(&self.w, &self.values(&plus(&self.x, h, &u)));
            let (numerical, _) = richardson(along, 0.0, STEP);
            let scale = norm(&first[n]).max(0.1 * weight);
            check(&format!("{name} by {arg}"), dot(&first, &u), numerical, scale, 1e-7);
        }

        // Along v: by x and by the weights, and by v itself.
        let v = leaves(&self.v, &at.x);
        let along: Vec<&Tensor> = x.iter().copied().chain(&w).collect();
        let h = Tensor::run_backward(&[&contracted(&g, &v)], &along, true, true);
        let (by_x, by_w) = h.split_at(x.len());
        let second = numbers(by_x);
        for (n, arg) in self.names.iter().enumerate().filter(|(n, _)| !self.is_strain[*n]) {
            let u = self.only(n, &self.z);
            let (numerical, _) =
                richardson(|h| dot(&self.gradient(&plus(&self.x, h, &u)), &self.v), 0.0, STEP);
            let scale = norm(&second[n]).max(0.1 * weight);
            check(&format!("{name}, twice, by {arg}"), dot(&second, &u), numerical, scale, 1e-6);
        }
        let value = |h| dot(&self.w, &self.values(&plus(&self.x, h, &self.v)));
        let (numerical, _) = richardson(value, 0.0, STEP);
        let tangent = dot(&self.w, &numbers(by_w));
        check(&format!("{name} along v"), tangent, numerical, tangent.abs().max(weight), 1e-7);

        // Along v and z: by the weights and by v. By x it would be the third derivative.
        let z = leaves(&self.z, &at.x);
        let last = contracted(by_x, &z);
        let along: Vec<&Tensor> = w.iter().chain(&v).collect();
        let found = numbers(&Tensor::run_backward(&[&last], &along, true, false));
        let (by_w, by_v) = found.split_at(w.len());
        let of_z = dot(&second, &self.z);
        // Both are sums of these terms, in another order.
        let terms = second.iter().zip(&self.z).flat_map(|(h, z)| h.iter().zip(z));
        let scale = terms.map(|(h, z)| (h * z).abs()).sum::<f64>().max(weight);
        check(&format!("{name} along v and z"), dot(by_w, &self.w), of_z, scale, 1e-11);
        check(&format!("{name} along z and v"), dot(by_v, &self.v), of_z, scale, 1e-11);
        let third = Tensor::f_run_backward(&[&last], &x, false, false);
        let error = third.expect_err("a third derivative").to_string();
        assert!(error.contains("exist to second order, and a third one"), "{error}");

        self.check_strain(&first, &second);
    }

    /// A strain is that of positions and cells: E(r, h, ε) = E(r(1 + ε), h(1 + ε), 0).
    fn check_strain(&self, first: &[Vec<f64>], second: &[Vec<f64>]) {
        let Some(at) = self.is_strain.iter().position(|is| *is) else { return };
        let name = self.of.op.full_name();
        let strain = &random(4, &self.x)[at];
        let moved = plus(&self.strained(&self.x, 1.0, strain), -1.0, &self.x);
        let by_strain: f64 = first[at].iter().zip(strain).map(|(g, e)| g * e).sum();
        let scale = rms(&first[at]).max(0.1) * 3.0;
        check(&format!("{name} by strain"), by_strain, dot(first, &moved), scale, 1e-11);
        let along = |h| {
            let g = self.gradient(&self.strained(&self.x, h, strain));
            dot(&g, &self.strained(&self.v, h, strain))
        };
        let (numerical, _) = richardson(along, 0.0, STEP);
        let by_strain: f64 = second[at].iter().zip(strain).map(|(g, e)| g * e).sum();
        let scale = rms(&second[at]).max(0.1) * 3.0;
        check(&format!("{name}, twice, by strain"), by_strain, numerical, scale, 1e-6);
    }
}

/// A call of every op that has real arguments.
fn cases() -> impl Iterator<Item = Arguments> {
    let ops = madelung::registries().into_iter().flat_map(|registry| registry.iter());
    ops.map(Arguments::of).filter(|of| !of.reals().is_empty())
}

#[test]
fn values_have_the_bits_of_the_facade() {
    let mut count = 0;
    for of in cases() {
        let reals: Vec<Vec<f64>> = of.reals().into_iter().map(|n| of.values(n).to_vec()).collect();
        let tensors = of.tensors(&reals);
        let found = madelung_tch::call(&of.op, of.inputs(&tensors)).expect("values");
        let wanted = of.facade();
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(&wanted) {
            let shape: Vec<i64> = wanted.shape().iter().map(|n| *n as i64).collect();
            assert_eq!(found.size(), shape, "{}", of.op.full_name());
            let found: Vec<f64> = Vec::try_from(found.to_kind(Kind::Double).flatten(0, -1)).unwrap();
            assert_eq!(found, wanted.to_f64().unwrap(), "{}", of.op.full_name());
        }
        count += 1;
    }
    assert!(count > 100, "{count} ops");
}

#[test]
fn derivatives_to_second_order() {
    let mut count = 0;
    for case in cases().map(Case::new).filter(|case| !case.w.is_empty()) {
        case.check();
        count += 1;
    }
    assert!(count > 100, "{count} ops");
}
