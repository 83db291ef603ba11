//! Sums of potentials whose functions are source text, for kernels that are made at run time.

use crate::ChargeSum;
use crate::kernels::TEXT;
use madelung_core::runtime::Kernel;
use madelung_core::{Error, Result};

impl ChargeSum {
    /// The sum of a potential from the source text of its functions `short_range`, `long_range`, `long_range_k2`, `self_term`
    /// and `background` (see [`potential`](crate::potential)) and what these call; `compile` makes kernels of source text.
    /// Names and kernels live as long as the process.
    ///
    /// # Errors
    /// A parameter, where its name is a word of the kernels; what `compile` refuses.
    pub fn from_source(
        prefix: &str,
        parameters: &[&str],
        functions: &str,
        compile: impl FnOnce(&str) -> Result<Vec<&'static Kernel>>,
    ) -> Result<Self> {
        let code = TEXT.lines().filter(|line| !line.trim_start().starts_with("///"));
        let words = code.flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_')));
        if let Some(taken) = words.into_iter().find(|word| parameters.contains(word)) {
            return Err(Error::argument(
                taken,
                "a name that the kernels of sums do not use",
                "one that they do",
            ));
        }
        let made = compile(&format!("{functions}\n{}", text(prefix, parameters)))?;
        let kernel = |name: &str| {
            let found = made.iter().find(|kernel| kernel.name.strip_prefix(prefix) == Some(name));
            found
                .copied()
                .ok_or_else(|| Error::argument("source", format!("a kernel `{prefix}{name}`"), "none"))
        };
        let leaked = |word: &str| -> &'static str { Box::leak(word.into()) };
        Ok(Self {
            prefix: leaked(prefix),
            parameters: Box::leak(parameters.iter().map(|p| leaked(p)).collect()),
            real_space: kernel("_real_space")?,
            exclusions: kernel("_exclusions")?,
            green_function: kernel("_green_function")?,
            reciprocal_space: kernel("_reciprocal_space")?,
            mesh_energy: kernel("_mesh_energy")?,
            own_energy: kernel("_own_energy")?,
            mesh_potential: kernel("_mesh_potential")?,
            // Nobody has looked whether one pass for values and gradients gives the bits of values alone.
            saves_gradients: false,
        })
    }
}

/// The kernels of a potential.
fn text(prefix: &str, parameters: &[&str]) -> String {
    let filled = |piece: &str| {
        if !piece.trim_start().starts_with("PARAMETER") {
            return format!(",{piece}");
        }
        let (element, rest) = piece.split_at(piece.find(')').unwrap_or(piece.len()));
        let each = parameters.iter().map(|name| format!(",{}", element.replace("PARAMETER", name)));
        each.collect::<String>() + rest
    };
    TEXT.split(',').map(filled).collect::<String>().trim_start_matches(',').replace("PREFIX", prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_where_the_macro_has_them() {
        let plain = |parameters: &[&str]| text("own", parameters).split_whitespace().collect::<String>();
        assert!(plain(&[]).contains("short_range(r,alpha[b])"));
        assert!(plain(&[]).contains("alpha:&[Real;System],strain:"));
        assert!(plain(&["a", "c"]).contains("short_range(r,alpha[b],a[b],c[b])"));
        assert!(
            plain(&["a", "c"]).contains("alpha:&[Real;System],a:&[Real;System],c:&[Real;System],strain:")
        );
        assert!(!plain(&["a"]).contains("PARAMETER") && !plain(&["a"]).contains("PREFIX"));
    }

    #[test]
    fn parameters_have_names_of_their_own() {
        let made = ChargeSum::from_source("own", &["charges"], "", |_| Ok(vec![]));
        assert!(matches!(made, Err(Error::Argument { argument, .. }) if argument == "charges"));
    }
}
