//! Registries of ops.

use super::Op;
use crate::{Error, Result};
use serde::Serialize;
use std::sync::Arc;

/// The ops of a library or of a user's extension. Bridges are handed one; there is no global list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Registry {
    ops: Vec<Arc<Op>>,
}

impl Registry {
    /// A registry of `ops`. Two of the same name and version are an error.
    pub fn new(ops: impl IntoIterator<Item = Arc<Op>>) -> Result<Self> {
        let mut registry = Self::default();
        for op in ops {
            registry.add(op)?;
        }
        Ok(registry)
    }

    /// Adds an op.
    pub fn add(&mut self, op: Arc<Op>) -> Result<()> {
        if self
            .ops
            .iter()
            .any(|o| (&o.namespace, &o.name, o.version) == (&op.namespace, &op.name, op.version))
        {
            return Err(Error::argument("op", "a new name or version", op.full_name()));
        }
        self.ops.push(op);
        Ok(())
    }

    /// The ops, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Op>> {
        self.ops.iter()
    }

    /// The newest version of an op.
    pub fn get(&self, name: &str) -> Option<&Arc<Op>> {
        self.ops.iter().filter(|o| o.name == name).max_by_key(|o| o.version)
    }

    /// The declarations as JSON: names, arguments, outputs and their shapes, attributes, scratch, derivatives.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
