//! The checkout: its packages, manifests, sources and documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use walkdir::WalkDir;

use crate::source::SourceFile;

/// What `cargo metadata` prints.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

/// One package: a member of the workspace, or one that a member depends on.
#[derive(Deserialize, Clone)]
pub struct Package {
    /// Its name in the registry.
    pub name: String,
    id: String,
    /// SPDX expression of its licence.
    pub license: Option<String>,
    /// One line for the registry.
    pub description: Option<String>,
    /// Search words for the registry.
    pub keywords: Vec<String>,
    /// Path of the README, from the package's folder.
    pub readme: Option<String>,
    /// Registries that may take it: `None` means any.
    publish: Option<Vec<String>>,
    /// Its direct dependencies.
    pub dependencies: Vec<Dependency>,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Libraries, binaries, tests, examples and build scripts.
    pub targets: Vec<Target>,
}

/// One line of a `[dependencies]` table.
#[derive(Deserialize, Clone)]
pub struct Dependency {
    /// Package name.
    pub name: String,
    /// `None`: normal; else `dev` or `build`.
    pub kind: Option<String>,
    /// The name that the code uses, if the manifest renames it.
    pub rename: Option<String>,
    /// Used with a feature only.
    #[serde(default)]
    pub optional: bool,
}

/// One crate of a package.
#[derive(Deserialize, Clone)]
pub struct Target {
    /// `lib`, `bin`, `test`, `example`, `custom-build`.
    pub kind: Vec<String>,
    /// Its root file.
    pub src_path: PathBuf,
}

/// The whole checkout.
pub struct Workspace {
    /// Its top folder.
    pub root: PathBuf,
    /// Members of the workspace.
    pub members: Vec<Package>,
    /// All packages of `Cargo.lock`, members included.
    pub packages: Vec<Package>,
    /// Every Rust file of the repository, by path.
    pub sources: BTreeMap<PathBuf, SourceFile>,
    /// Every Markdown file of the repository.
    pub documents: BTreeMap<PathBuf, String>,
}

impl Package {
    /// Whether it is meant for a registry.
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// The folder with its manifest.
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }
}

impl Workspace {
    /// Reads the checkout whose `cargo xtask` runs.
    pub fn load() -> Result<Workspace> {
        // A program that cargo did not build again may be in a target directory that several checkouts share.
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

    /// A path as findings show it.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    /// One member by its name.
    pub fn member(&self, name: &str) -> Option<&Package> {
        self.members.iter().find(|package| package.name == name)
    }
}
