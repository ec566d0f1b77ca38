//! The checkout: its packages, manifests, source files, and documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use walkdir::WalkDir;

use crate::source::SourceFile;

/// Output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

/// A package: a member of the workspace, or a dependency of a member.
#[derive(Deserialize, Clone)]
pub struct Package {
    /// Name in the registry.
    pub name: String,
    id: String,
    /// Licence as an SPDX expression.
    pub license: Option<String>,
    /// Description for the registry, one line.
    pub description: Option<String>,
    /// Search words for the registry.
    pub keywords: Vec<String>,
    /// Path of the README, relative to the package's folder.
    pub readme: Option<String>,
    /// Registries to which the package may be published; `None` for any registry.
    publish: Option<Vec<String>>,
    /// Direct dependencies.
    pub dependencies: Vec<Dependency>,
    /// Path of the package's `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Libraries, binaries, tests, examples, and build scripts.
    pub targets: Vec<CrateTarget>,
}

/// One line of a `[dependencies]` table.
#[derive(Deserialize, Clone)]
pub struct Dependency {
    /// Package name.
    pub name: String,
    /// Kind: `None` for a normal dependency, otherwise `dev` or `build`.
    pub kind: Option<String>,
    /// Name that the code uses, if the manifest renames the dependency.
    pub rename: Option<String>,
    /// True if the dependency is only used with a feature.
    #[serde(default)]
    pub optional: bool,
}

/// A crate of a package.
#[derive(Deserialize, Clone)]
pub struct CrateTarget {
    /// Kinds: `lib`, `bin`, `test`, `example`, `custom-build`.
    pub kind: Vec<String>,
    /// Root file of the crate.
    pub src_path: PathBuf,
}

/// The checkout of the repository.
pub struct Workspace {
    /// Top-level folder.
    pub root: PathBuf,
    /// Members of the workspace.
    pub members: Vec<Package>,
    /// All packages in `Cargo.lock`, including members.
    pub packages: Vec<Package>,
    /// Every Rust file in the repository, by path.
    pub sources: BTreeMap<PathBuf, SourceFile>,
    /// Every Markdown file in the repository, by path.
    pub documents: BTreeMap<PathBuf, String>,
}

impl Package {
    /// Returns true if the package is intended for a registry.
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns the folder that contains the manifest.
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }
}

impl Workspace {
    /// Reads the checkout in which `cargo xtask` runs.
    pub fn load() -> Result<Workspace> {
        // Several checkouts may share a target directory. The running binary may therefore belong to another checkout
        // if cargo did not rebuild it.
        let package =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&package).parent().context("xtask is in the checkout")?.to_owned();
        let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
            .args(["metadata", "--format-version", "1", "--locked"])
            .current_dir(&root)
            .output()
            .context("cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        let members =
            metadata.packages.iter().filter(|package| metadata.workspace_members.contains(&package.id));
        let mut workspace = Workspace {
            members: members.cloned().collect(),
            packages: metadata.packages,
            sources: BTreeMap::new(),
            documents: BTreeMap::new(),
            root,
        };
        workspace.read_files()?;
        Ok(workspace)
    }

    fn read_files(&mut self) -> Result<()> {
        let files = WalkDir::new(&self.root).sort_by_file_name().into_iter().filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            entry.depth() == 0 || !(name.starts_with('.') || name == "target")
        });
        for entry in files {
            let path = entry?.into_path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if !path.is_file() || !matches!(extension, Some("rs" | "md")) {
                continue;
            }
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            if extension == Some("md") {
                self.documents.insert(path, text);
            } else {
                let source = SourceFile::parse(text).with_context(|| path.display().to_string())?;
                self.sources.insert(path, source);
            }
        }
        Ok(())
    }

    /// Returns a path as it is displayed in findings.
    pub fn display_path<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    /// Returns the member with this name.
    pub fn member(&self, name: &str) -> Option<&Package> {
        self.members.iter().find(|package| package.name == name)
    }
}
