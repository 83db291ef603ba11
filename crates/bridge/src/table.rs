//! A table of members of ops by name, for frameworks that call by name.

use crate::layout::Input;
use crate::{Entry, Member, flat, name_of};
use madelung_core::op::{Op, Registry};
use madelung_core::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The description of an op for a framework.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// The op.
    pub op: Arc<Op>,
    /// The op's inputs, which come first in every member.
    pub inputs: Arc<[Input]>,
    /// The names of the members' targets, by suffix.
    pub targets: Vec<(&'static str, String)>,
    /// The names of the residuals.
    pub saves: Vec<String>,
}

/// The registered members, by the name of their target.
fn entries() -> &'static RwLock<BTreeMap<String, &'static Entry>> {
    static ENTRIES: OnceLock<RwLock<BTreeMap<String, &'static Entry>>> = OnceLock::new();
    ENTRIES.get_or_init(RwLock::default)
}

/// The name of a member's target.
fn target(op: &Op, member: Member) -> String {
    format!("{}.{}{}", op.namespace, name_of(op), member.suffix())
}

/// The descriptions of all ops of `registries`, whose members are registered for [`find`] for the life of the process.
///
/// # Errors
/// Those of [`crate::layout::inputs`].
pub fn describe(registries: &[&Registry]) -> Result<Vec<Described>> {
    let mut known = entries().write().unwrap_or_else(PoisonError::into_inner);
    let described = flat(registries)?.into_iter().map(|flat| {
        let members = Member::ALL.into_iter().filter(|member| member.is_of(&flat.op));
        let targets = members.map(|member| {
            let name = target(&flat.op, member);
            known.entry(name.clone()).or_insert_with(|| Box::leak(Box::new(Entry::new(&flat, member))));
            (member.suffix(), name)
        });
        let (targets, saves) =
            (targets.collect(), flat.op.saved().into_iter().map(|spec| spec.name).collect());
        Described { op: flat.op, inputs: flat.inputs, targets, saves }
    });
    Ok(described.collect())
}

/// The registered member of a target.
///
/// # Errors
/// No op passed to [`describe`] has the target.
pub fn find(name: &str) -> Result<&'static Entry> {
    let known = entries().read().unwrap_or_else(PoisonError::into_inner);
    known.get(name).copied().ok_or_else(|| {
        Error::Unsupported(format!(
            "{name}: this build of Madelung has no such op (`madelung.ops()` lists them)"
        ))
    })
}
