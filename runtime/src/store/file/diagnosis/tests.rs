use super::*;

const MOUNTS: &str = "/dev/vda / ext4 rw 0 0\n\
    tmpfs /run tmpfs rw,nosuid 0 0\n\
    files:/export /srv/shop nfs4 rw,vers=4.2 0 0\n\
    /dev/vdb /srv/shop/local ext4 rw 0 0\n\
    //nas/jobs /mnt/our\\040share cifs rw 0 0\n";

#[test]
fn the_nearest_mount_decides() {
    for (folder, kind) in [
        ("/var/lib/jobs", "ext4"),
        ("/run/jobs", "tmpfs"),
        ("/running/jobs", "ext4"),
        ("/srv/shop/jobs", "nfs4"),
        ("/srv/shop/local/jobs", "ext4"),
        ("/mnt/our share/jobs", "cifs"),
    ] {
        assert_eq!(file_system_of(Path::new(folder), MOUNTS), Some(kind), "{folder}");
    }
}

#[test]
fn network_shares_and_memory_are_reported_and_disks_are_not() {
    let kind_of = |kind| about_type(kind, "folder").map(|finding| finding.kind);
    for kind in [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "9p",
        "ceph",
        "virtiofs",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.rclone",
    ] {
        assert_eq!(kind_of(kind), Some(FindingKind::NetworkShare), "{kind}");
    }
    assert_eq!(kind_of("tmpfs"), Some(FindingKind::NotDurable));
    assert_eq!(["ext4", "xfs", "btrfs", "overlay", "apfs", "fuseblk", "fuse.bindfs"].map(kind_of), [None; 7]);
}
