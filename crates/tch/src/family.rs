//! The family of an op's derivatives, as torch's autograd asks for it: F_k(x; u₁…u_k), the k-th directional
//! derivative of the outputs, and G_k(x; w; u₁…u_k) = ∇ₓ⟨w, F_k⟩.
//!
//! A [`Call`] of one of them is a node whose backward pass makes calls of others, by two rules: differentiating by x
//! adds a direction; transposing F_k in a direction gives G_{k−1}, transposing G_k in w gives F_{k+1}. F₀, F₁, F₂, G₀
//! and G₁ exist.

use crate::memory::{Dense, tensor};
use crate::node::record;
use madelung::array::View;
use madelung::backend::Context;
use madelung::op::{Arg, Cotangent, Op, Request, Structure};
use madelung::{Error, Result};
use std::sync::Arc;
use tch::Tensor;

/// An op, and its arguments that are no tensors.
pub(crate) struct Shared {
    pub(crate) op: Arc<Op>,
    pub(crate) args: Vec<Given>,
}

/// An argument as nodes keep it.
pub(crate) enum Given {
    /// A tensor, which a call has.
    Tensor,
    Structure(Arc<dyn Structure>),
    Real(f64),
    Int(i64),
    Zero,
}

/// Meaning of a tensor of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The value of an argument.
    Value(usize),
    /// The cotangent of an output.
    Cotangent(usize),
    /// The tangent of an argument, along a direction.
    Tangent(usize, usize),
}

/// A member of the family.
#[derive(Clone)]
struct Member {
    /// The number of directions, k.
    directions: usize,
    /// The arguments whose gradients a G has; None: it is an F.
    wanted: Option<Vec<usize>>,
}

/// A call of a member. A tangent or cotangent that it lacks is zero.
pub(crate) struct Call {
    of: Arc<Shared>,
    member: Member,
    tensors: Vec<(Role, Tensor)>,
}

/// The results of a call, each with the output or the argument that it belongs to; none of those that are zero.
type Results = Vec<(usize, Tensor)>;

impl Call {
    /// A call of the op itself; `values`: of its arguments that are tensors.
    pub(crate) fn new(of: Shared, values: Vec<(usize, Tensor)>) -> Self {
        let tensors = values.into_iter().map(|(arg, x)| (Role::Value(arg), x)).collect();
        Self { of: Arc::new(of), member: Member { directions: 0, wanted: None }, tensors }
    }

    /// The results, behind a node.
    pub(crate) fn run(self) -> Result<Results> {
        if self.is_zero() || self.member.wanted.as_ref().is_some_and(Vec::is_empty) {
            return Ok(vec![]);
        }
        let (places, values): (Vec<usize>, Vec<Tensor>) = self.evaluate()?.into_iter().unzip();
        let (roles, inputs): (Vec<Role>, Vec<Tensor>) = self.tensors.into_iter().unzip();
        let (of, member, of_results) = (self.of, self.member, places.clone());
        let backward = move |inputs: Vec<Tensor>, wanted: &[bool], cotangents: Vec<Option<Tensor>>| {
            let tensors = roles.iter().copied().zip(inputs).collect();
            let call = Self { of: of.clone(), member: member.clone(), tensors };
            let cotangents = of_results.iter().copied().zip(cotangents);
            let cotangents: Results = cotangents.filter_map(|(at, w)| Some((at, w?))).collect();
            let wanted: Vec<Role> =
                roles.iter().zip(wanted).filter(|(_, is)| **is).map(|(role, _)| *role).collect();
            let gradients = call.backward(&cotangents, &wanted)?;
            let of_role = |role| gradients.iter().find(|(at, _)| *at == role).map(|(_, g)| g.shallow_clone());
            Ok(roles.iter().copied().map(of_role).collect())
        };
        Ok(places.into_iter().zip(record(&inputs, values, Box::new(backward))?).collect())
    }

    /// The gradients by the tensors of the roles that are wanted, for cotangents of the results.
    fn backward(&self, cotangents: &Results, wanted: &[Role]) -> Result<Vec<(Role, Tensor)>> {
        let mut found = vec![];
        let mut add = |call: Self, role: &dyn Fn(usize) -> Role| -> Result<()> {
            found.extend(call.run()?.into_iter().map(|(at, gradient)| (role(at), gradient)));
            Ok(())
        };
        let of = |role: &dyn Fn(usize) -> Role| -> Vec<usize> {
            (0..self.of.args.len()).filter(|arg| wanted.contains(&role(*arg))).collect()
        };
        let directions = self.member.directions;
        let is_gradient = self.member.wanted.is_some();
        let by_values = of(&Role::Value);
        if !by_values.is_empty() {
            let call = match is_gradient {
                true => self.along(directions, cotangents, Some(by_values)),
                false => self.weighted(cotangents, by_values),
            };
            add(call, &Role::Value)?;
        }
        if wanted.iter().any(|role| matches!(role, Role::Cotangent(_))) {
            add(self.along(directions, cotangents, None), &Role::Cotangent)?;
        }
        for j in 0..directions {
            let role = |arg| Role::Tangent(j, arg);
            let by_tangents = of(&role);
            if by_tangents.is_empty() {
                continue;
            }
            let call = match is_gradient {
                true => self.along(j, cotangents, Some(by_tangents)),
                false => self.weighted(cotangents, by_tangents).without(j),
            };
            add(call, &role)?;
        }
        found.retain(|(role, _)| wanted.contains(role));
        Ok(found)
    }

    /// The call with tangents along direction j, an added one or in place of its own; `wanted`: as a G, or an F.
    fn along(&self, j: usize, tangents: &Results, wanted: Option<Vec<usize>>) -> Self {
        let is_weighted = wanted.is_some();
        let stays = |role: Role| match role {
            Role::Value(_) => true,
            Role::Cotangent(_) => is_weighted,
            Role::Tangent(of, _) => of != j,
        };
        let directions = self.member.directions.max(j + 1);
        self.changed(stays, tangents, |arg| Role::Tangent(j, arg), Member { directions, wanted })
    }

    /// The gradient of the results of an F, weighted with cotangents.
    fn weighted(&self, cotangents: &Results, wanted: Vec<usize>) -> Self {
        let member = Member { directions: self.member.directions, wanted: Some(wanted) };
        self.changed(|_| true, cotangents, Role::Cotangent, member)
    }

    /// The call without direction j.
    fn without(mut self, j: usize) -> Self {
        self.member.directions -= 1;
        self.tensors.retain(|(role, _)| !matches!(role, Role::Tangent(of, _) if *of == j));
        for (role, _) in &mut self.tensors {
            if let Role::Tangent(of, _) = role
                && *of > j
            {
                *of -= 1;
            }
        }
        self
    }

    fn changed(
        &self,
        stays: impl Fn(Role) -> bool,
        added: &Results,
        role: impl Fn(usize) -> Role,
        member: Member,
    ) -> Self {
        let own = self.tensors.iter().filter(|(role, _)| stays(*role)).map(|(role, x)| (*role, x));
        let added = added.iter().map(|(at, x)| (role(*at), x));
        let tensors = own.chain(added).map(|(role, x)| (role, x.shallow_clone())).collect();
        Self { of: self.of.clone(), member, tensors }
    }

    /// Whether a direction, or all cotangents of a G, are zero.
    fn is_zero(&self) -> bool {
        let lacks = |is: &dyn Fn(Role) -> bool| !self.tensors.iter().any(|(role, _)| is(*role));
        let lacks_direction = |j| lacks(&|role| matches!(role, Role::Tangent(of, _) if of == j));
        (self.member.wanted.is_some() && lacks(&|role| matches!(role, Role::Cotangent(_))))
            || (0..self.member.directions).any(lacks_direction)
    }

    /// The results, behind no node.
    fn evaluate(&self) -> Result<Results> {
        let op = &self.of.op;
        let Member { directions, wanted } = &self.member;
        let order = directions + usize::from(wanted.is_some());
        if order > 2 {
            return Err(Error::Unsupported(format!(
                "{}: derivatives by its inputs exist to second order, and a third one was asked for (of a \
                 Hessian-vector product, say, or of forces differentiated twice). Differentiate once less, or hide \
                 (`detach`) what the last derivative need not see",
                op.full_name()
            )));
        }
        let dense = self.tensors.iter().map(|(role, x)| Ok((*role, Dense::new(&self.name(*role), x)?)));
        let dense: Vec<(Role, Dense)> = dense.collect::<Result<_>>()?;
        let view = |role: Role| -> Result<Option<View<'_>>> {
            dense.iter().find(|(at, _)| *at == role).map(|(_, x)| x.view()).transpose()
        };
        let args = self.of.args.iter().enumerate().map(|(n, given)| {
            Ok(match given {
                Given::Tensor => {
                    Arg::Array(view(Role::Value(n))?.expect("a call has the values of its tensors"))
                }
                Given::Structure(structure) => Arg::Structure(&**structure),
                Given::Real(x) => Arg::Real(*x),
                Given::Int(n) => Arg::Int(*n),
                Given::Zero => Arg::Zero,
            })
        });
        let args: Vec<Arg<'_>> = args.collect::<Result<_>>()?;
        let along = |j| (0..args.len()).map(|arg| view(Role::Tangent(j, arg))).collect::<Result<Vec<_>>>();
        let along: Vec<Vec<_>> = (0..*directions).map(along).collect::<Result<_>>()?;
        let along: Vec<&[_]> = along.iter().map(Vec::as_slice).collect();
        let outputs = 0..wanted.as_ref().map_or(0, |_| op.outputs.len());
        let cotangents = outputs.map(|n| Ok(view(Role::Cotangent(n))?.map(cotangent)));
        let cotangents: Vec<Option<Cotangent<'_>>> = cotangents.collect::<Result<_>>()?;
        let request = Request {
            values: wanted.is_none() && *directions == 0,
            directions: &along,
            cotangents: &cotangents,
            gradients: wanted.as_deref().unwrap_or_default(),
            ..Request::default()
        };
        let found = op.evaluate(&context(), &args, &request)?;
        let arrays = if wanted.is_some() { &found.gradients } else { &found.values };
        let place = |n: usize| wanted.as_ref().map_or(n, |args| args[n]);
        arrays.iter().enumerate().map(|(n, array)| Ok((place(n), tensor(array)?))).collect()
    }

    /// The name of a tensor, for errors.
    fn name(&self, role: Role) -> String {
        let op = &self.of.op;
        match role {
            Role::Value(arg) => op.args[arg].name.clone(),
            Role::Cotangent(output) => format!("cotangent of {}", op.outputs[output].name),
            Role::Tangent(_, arg) => format!("direction of {}", op.args[arg].name),
        }
    }
}

/// A cotangent, which kernels take in a cheaper form where it is the same for each row.
fn cotangent(view: View<'_>) -> Cotangent<'_> {
    match view.uniform() {
        Some(x) if view.shape().len() == 1 => Cotangent::Uniform(x),
        _ => Cotangent::Array(view),
    }
}

/// The host, with as many threads as torch has.
pub(crate) fn context() -> Context<'static> {
    madelung::cpu::context().with_max_threads(tch::get_num_threads().max(1) as usize)
}
