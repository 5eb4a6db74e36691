//! [`Store`]: kernels on disk, each in a directory named by the hash of its manifest, which holds the hash of every file.
//! A name of the catalogue is a file that holds that hash. Whatever is read is checked first.
//!
//! A kernel is put together beside its place and takes it by one rename, so what is there is whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::sha256_hex;
use crate::error::LabError;
use crate::kernels;

/// The file that names the others.
const MANIFEST: &str = "manifest.json";
/// The kernel itself.
pub const KERNEL: &str = "vmlinuz";

/// What a stored kernel consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The package of the kernel.
    pub package: String,
    pub version: String,
    /// Which list of modules was kept of it.
    #[serde(default)]
    pub selection: u32,
    /// The SHA-256 of each file, by its path.
    pub files: BTreeMap<String, String>,
}

/// Where kernels are kept.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct StoredKernel {
    name: String,
    content: String,
    directory: PathBuf,
    manifest: Manifest,
}

impl Store {
    /// The place of this user: `$SURETY_LAB_DIR`, else `$XDG_CACHE_HOME/surety/lab`, else `/var/cache/surety/lab` for
    /// root, else `~/.cache/surety/lab`.
    ///
    /// # Errors
    /// When there is none: no home directory is known.
    pub fn find(is_root: bool) -> Result<Store, LabError> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = variable("SURETY_LAB_DIR")
            .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("surety/lab")))
            .or_else(|| is_root.then(|| PathBuf::from("/var/cache/surety/lab")))
            .or_else(|| Some(variable("HOME")?.join(".cache/surety/lab")));
        let root =
            root.ok_or_else(|| LabError::file("looking for a place for kernels", &"HOME is not set"))?;
        Ok(Store { root })
    }

    /// A given place.
    pub fn at(root: &Path) -> Store {
        Store { root: root.to_owned() }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The kernel stored under a name of the catalogue, its manifest and image checked.
    ///
    /// # Errors
    /// [`LabError::UnknownKernel`], [`LabError::NotFetched`], [`LabError::Corrupt`].
    pub fn kernel(&self, name: &str) -> Result<StoredKernel, LabError> {
        kernels::find(name)?;
        let missing = || LabError::NotFetched { name: name.to_owned() };
        let content = std::fs::read_to_string(self.name_path(name)).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => missing(),
            _ => LabError::file(format!("reading {}", self.name_path(name).display()), &e),
        })?;
        self.content(name, content.trim())
    }

    /// The kernel of a hash, whatever name it has now.
    ///
    /// # Errors
    /// [`LabError::NotFetched`], [`LabError::Corrupt`].
    pub fn content(&self, name: &str, content: &str) -> Result<StoredKernel, LabError> {
        let corrupt = |why: String| LabError::Corrupt { name: name.to_owned(), why };
        if content.len() != 64 || !content.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(corrupt("the file of its name holds no hash".to_owned()));
        }
        let directory = self.root.join("store").join(content);
        if !directory.is_dir() {
            return Err(LabError::NotFetched { name: name.to_owned() });
        }
        let text = std::fs::read_to_string(directory.join(MANIFEST))
            .map_err(|e| corrupt(format!("{MANIFEST} cannot be read: {e}")))?;
        if sha256_hex(text.as_bytes()) != content {
            return Err(corrupt(format!("{MANIFEST} is not what was stored")));
        }
        let manifest = serde_json::from_str(&text).map_err(|e| corrupt(format!("{MANIFEST}: {e}")))?;
        let kernel = StoredKernel { name: name.to_owned(), content: content.to_owned(), directory, manifest };
        kernel.read(KERNEL)?;
        Ok(kernel)
    }

    /// Puts a kernel in: `files` are those to keep, by their path in the store. What was damaged is replaced.
    ///
    /// # Errors
    /// When the place cannot be written.
    pub fn put(
        &self,
        name: &str,
        package: &str,
        version: &str,
        selection: u32,
        files: &BTreeMap<String, PathBuf>,
    ) -> Result<StoredKernel, LabError> {
        let failed = |what: &str, e: &dyn std::fmt::Display| {
            LabError::file(format!("{what} in {}", self.root.display()), e)
        };
        let store = self.root.join("store");
        let names = self.root.join("names");
        for directory in [&store, &names] {
            std::fs::create_dir_all(directory).map_err(|e| failed("making directories", &e))?;
        }
        let part = tempfile::Builder::new()
            .prefix("part-")
            .tempdir_in(&store)
            .map_err(|e| failed("making a directory", &e))?;
        let mut manifest = Manifest {
            package: package.to_owned(),
            version: version.to_owned(),
            selection,
            files: BTreeMap::new(),
        };
        for (path, from) in files {
            let bytes = std::fs::read(from).map_err(|e| failed(&format!("reading {path}"), &e))?;
            let target = part.path().join(path);
            let parent = target.parent().expect("a path in the store has a parent");
            std::fs::create_dir_all(parent).map_err(|e| failed("making directories", &e))?;
            std::fs::write(&target, &bytes).map_err(|e| failed(&format!("writing {path}"), &e))?;
            manifest.files.insert(path.clone(), sha256_hex(&bytes));
        }
        let text = serde_json::to_string_pretty(&manifest).map_err(|e| failed("writing the manifest", &e))?;
        let content = sha256_hex(text.as_bytes());
        std::fs::write(part.path().join(MANIFEST), text).map_err(|e| failed("writing the manifest", &e))?;
        let place = store.join(&content);
        if place.exists() && self.content(name, &content).and_then(|kernel| kernel.check()).is_err() {
            std::fs::remove_dir_all(&place).map_err(|e| failed("removing what was damaged", &e))?;
        }
        if !place.exists() {
            std::fs::rename(part.path(), &place).map_err(|e| failed("storing the kernel", &e))?;
            // It has another name now, and is nothing to remove.
            let _ = part.keep();
        }
        let new = names.join(format!("{name}.part"));
        std::fs::write(&new, &content).map_err(|e| failed("writing the name", &e))?;
        std::fs::rename(&new, self.name_path(name)).map_err(|e| failed("writing the name", &e))?;
        self.content(name, &content)
    }

    fn name_path(&self, name: &str) -> PathBuf {
        self.root.join("names").join(name)
    }
}

impl StoredKernel {
    /// Its name in the catalogue.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hash it is stored under.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// What it consists of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The version of its package, `6.1.176-1`.
    pub fn version(&self) -> &str {
        &self.manifest.version
    }

    /// Package and version, in words.
    pub fn in_words(&self) -> String {
        format!("{} {}", self.manifest.package, self.manifest.version)
    }

    /// The paths of its files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.manifest.files.keys().map(String::as_str)
    }

    /// Where a file of it is.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// How much it takes on disk.
    pub fn size(&self) -> u64 {
        self.files().filter_map(|f| std::fs::metadata(self.path(f)).ok()).map(|m| m.len()).sum()
    }

    /// Looks at every file of it.
    ///
    /// # Errors
    /// [`LabError::Corrupt`] for the first that is not what was stored.
    pub fn check(&self) -> Result<(), LabError> {
        self.files().try_for_each(|file| self.read(file).map(|_| ()))
    }

    /// A file of it, checked.
    ///
    /// # Errors
    /// [`LabError::Corrupt`].
    pub fn read(&self, file: &str) -> Result<Vec<u8>, LabError> {
        let corrupt = |why: String| LabError::Corrupt { name: self.name.clone(), why };
        let stored = self.manifest.files.get(file);
        let stored = stored.ok_or_else(|| corrupt(format!("its manifest names no {file}")))?;
        let bytes =
            std::fs::read(self.path(file)).map_err(|e| corrupt(format!("{file} cannot be read: {e}")))?;
        if sha256_hex(&bytes) == *stored {
            Ok(bytes)
        } else {
            Err(corrupt(format!("{file} is not what was stored")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(root: &Path) -> (Store, StoredKernel) {
        let image = root.join("image");
        std::fs::write(&image, b"a kernel").unwrap();
        let files =
            BTreeMap::from([(KERNEL.to_owned(), image.clone()), ("modules/a/b.ko".to_owned(), image)]);
        let store = Store::at(&root.join("lab"));
        let kernel = store.put("6.12", "linux-image-6.12", "6.12.1-1", 0, &files).unwrap();
        (store, kernel)
    }

    #[test]
    fn what_was_put_in_comes_out() {
        let directory = tempfile::tempdir().unwrap();
        let (store, kernel) = stored(directory.path());
        assert_eq!(kernel.read("modules/a/b.ko").unwrap(), b"a kernel");
        assert_eq!(kernel.size(), 16);
        let again = store.kernel("6.12").unwrap();
        assert_eq!(
            (again.content(), again.in_words().as_str()),
            (kernel.content(), "linux-image-6.12 6.12.1-1")
        );
        assert!(matches!(store.kernel("6.1"), Err(LabError::NotFetched { .. })));
        assert!(matches!(store.kernel("5.4"), Err(LabError::UnknownKernel { .. })));
        let left: Vec<_> = std::fs::read_dir(store.root().join("store")).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn damage_is_seen_and_mended_by_putting_it_in_again() {
        let directory = tempfile::tempdir().unwrap();
        let (store, kernel) = stored(directory.path());
        for file in [KERNEL, MANIFEST] {
            std::fs::write(kernel.path(file), b"something else").unwrap();
            let error = store.kernel("6.12").unwrap_err();
            assert!(matches!(error, LabError::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains(file), "{error}");
            stored(directory.path());
            store.kernel("6.12").unwrap();
        }
        std::fs::remove_file(kernel.path(KERNEL)).unwrap();
        assert!(matches!(store.kernel("6.12"), Err(LabError::Corrupt { .. })));
        stored(directory.path());
        std::fs::write(store.root().join("names/6.12"), "no hash").unwrap();
        assert!(matches!(store.kernel("6.12"), Err(LabError::Corrupt { .. })));
    }
}
