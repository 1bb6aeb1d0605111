//! Finds dangerous properties of a folder.

use std::fs;
use std::path::Path;

use super::super::StoreErrorKind;
use super::key_files::KeyFiles;
use crate::observe::finding;
use crate::observe::finding::{Finding, FindingKind, LOOKED_AT};

/// Looks at the folder, and at the records of these jobs. A folder that cannot be used is found by the first look.
pub(super) fn look(folder: &Path, jobs: &[String]) -> Vec<Finding> {
    let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
    let is_unreadable = |job: &&String| {
        let record = KeyFiles::new(folder, job).whole();
        record.is_err_and(|failure| failure.kind == StoreErrorKind::Unreadable)
    };
    let unreadable: Vec<_> = looked_at.iter().filter(is_unreadable).cloned().collect();
    let findings =
        [about_file_system(folder, "folder"), about_permissions(folder, "folder")].into_iter().flatten();
    findings.chain(finding::about_states(looked_at, jobs.len(), &unreadable)).collect()
}

/// Types of file systems that several machines share, or a machine and its guests. Those in user space begin with `fuse.`.
const SHARED: &str = "9p acfs afs beegfs blobfuse blobfuse2 ceph ceph-fuse cifs coda curlftpfs davfs gcsfuse gfs2 \
    glusterfs goofys gpfs juicefs lustre mfs mount-s3 mountpoint-s3 ncpfs nfs nfs4 ocfs2 orangefs prl_fs \
    rclone s3fs seaweedfs smb3 smbfs sshfs vboxsf virtiofs vmhgfs-fuse";

/// Only where the system lists its mounts. `what` of the store is there.
pub(in crate::store) fn about_file_system(folder: &Path, what: &str) -> Option<Finding> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let folder = folder.canonicalize().ok()?;
    about_type(file_system_of(&folder, &mounts)?, what)
}

/// The type of the file system that is mounted nearest to the folder, and last of those at the same place.
fn file_system_of<'m>(folder: &Path, mounts: &'m str) -> Option<&'m str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.replace("\\040", " "), fields.next()?))
    });
    let around = mounts.filter(|(place, _)| folder.starts_with(place));
    around.max_by_key(|(place, _)| Path::new(place).components().count()).map(|(_, kind)| kind)
}

fn about_type(kind: &str, what: &str) -> Option<Finding> {
    let (about, message) = match kind {
        kind if SHARED.split(' ').any(|shared| shared == kind.trim_start_matches("fuse.")) => (
            FindingKind::NetworkShare,
            format!(
                "the store's {what} is on a network share ({kind}): locks and clocks differ between machines, so a tick can \
                start twice; use a {what} on a local disk, or Redis or PostgreSQL for several machines"
            ),
        ),
        "tmpfs" | "ramfs" => (
            FindingKind::NotDurable,
            format!(
                "the store's {what} is in memory ({kind}): after a restart of the machine a tick that has run may run again \
                within its grace, and pauses are lost; use a {what} on a disk"
            ),
        ),
        _ => return None,
    };
    Some(Finding::warning(about, message))
}

#[cfg(unix)]
pub(in crate::store) fn about_permissions(path: &Path, what: &str) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt;

    let mode = fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o002 != 0).then(|| {
        Finding::warning(
            FindingKind::OpenToOthers,
            format!(
                "all users of this machine may write to the store's {what}, and so stop jobs or make them run again; remove \
                that permission: chmod o-w"
            ),
        )
    })
}

#[cfg(not(unix))]
pub(in crate::store) fn about_permissions(_path: &Path, _what: &str) -> Option<Finding> {
    None
}

#[cfg(test)]
mod tests;
