//! Files of passwords and keys.

use std::path::Path;

use super::ReadError;

/// Whether a file of passwords or keys is its owner's alone; `name` stands for the source that needs it.
///
/// # Errors
/// Others can read it.
pub(super) fn check(file: &Path, holds: &str, name: &str) -> Result<(), ReadError> {
    if file.is_file() && is_open(file) {
        let problem = format!("{} holds {holds} and can be read by others: chmod 600", file.display());
        return Err(ReadError::Refused { file: name.to_owned(), problem });
    }
    Ok(())
}

#[cfg(unix)]
fn is_open(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_file: &Path) -> bool {
    false
}
