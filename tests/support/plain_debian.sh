#!/bin/bash
# A machine of its own: the programs of this one, which it cannot change, with an /etc, users and a systemd of its own.
# It is gone when its first process ends. As root: unshare … bash plain_debian.sh ROOT CLONE PACKAGES GIVEN OUT
#
# ROOT: an empty directory; CLONE, PACKAGES and GIVEN are shown there as /clone, /packages and /given; OUT gets
# what `driver.sh` of GIVEN says, and its exit code. MP_SPDZ, if given, is a build that is shown as /opt/MP-SPDZ.
set -euo pipefail
root=$1 clone=$2 packages=$3 given=$4 out=$5 mp_spdz=${6-}

mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p usr etc proc sys dev run var/{lib,log,cache,spool,tmp} tmp srv root home opt clone packages given
chmod 1777 tmp var/tmp
for name in usr:/usr clone:"$clone" packages:"$packages" given:"$given"; do
    mount --bind "${name#*:}" "${name%%:*}"
    mount -o remount,bind,ro "${name%%:*}"
done
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L /$name ]; then cp -a /$name .; fi
done
cp -a /etc/. etc
rm -rf etc/systemd/system etc/fairshares
mkdir etc/systemd/system
if [ -n "$mp_spdz" ]; then
    mkdir -p ".$mp_spdz" # where it was built, as its programs look for their libraries there
    mount --bind "$mp_spdz" ".$mp_spdz"
    mount -o remount,bind,ro ".$mp_spdz"
    ln -s "$mp_spdz" opt/MP-SPDZ
fi
echo 0123456789abcdef0123456789abcdef > etc/machine-id
mkdir "$out/kept" var/lib/systemd
mount --bind "$out/kept" var/lib/systemd # on a disk, or no credential is encrypted

mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    touch dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
# What is about devices, kernels and the network of a real machine.
for unit in systemd-{udevd,udev-trigger,udev-settle,sysctl,modules-load,binfmt,random-seed,remount-fs}.service \
    systemd-udevd-{control,kernel}.socket systemd-tmpfiles-setup{,-dev}.service systemd-sysusers.service \
    systemd-{update-utmp,pstore,machine-id-commit,firstboot,hwdb-update,update-done}.service \
    systemd-journal-catalog-update.service systemd-journald-audit.socket modprobe@.service \
    kmod-static-nodes.service keyboard-setup.service apparmor.service \
    sys-fs-fuse-connections.mount sys-kernel-{debug,tracing,config}.mount dev-{mqueue,hugepages}.mount \
    proc-sys-fs-binfmt_misc.{automount,mount}; do
    ln -s /dev/null etc/systemd/system/$unit
done

mount --make-rshared "$root" # as a container's manager does, so that units get their credentials

drive() {
    local code=0
    chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin LANG=C.UTF-8 COLUMNS=200 \
        bash -euo pipefail /given/driver.sh > "$out/said" 2>&1 < /dev/null || code=$?
    echo $code > "$out/code"
    chroot "$root" systemctl exit > /dev/null 2>&1 || kill -KILL 1
}
drive &
exec env -i container=other PATH=/usr/sbin:/usr/bin chroot "$root" /usr/lib/systemd/systemd --system \
    --unit=basic.target --log-target=journal --show-status=0
