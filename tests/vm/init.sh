#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The first program of the machine, in its initramfs: loads the modules, puts a throw-away layer in memory over the
# host's file system, and goes on in there with what tests/vm/run.sh has prepared. The names in capitals come from
# the kernel's command line.
b=/bin/busybox
$b mkdir -p /proc /sys /dev /host /layer /root
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
while read -r module; do
    [ "$module" = "$VM_WITHOUT" ] || $b insmod "/modules/$module" || echo "weft-vm: cannot load $module"
done </modules/order
plan9=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o ro,$plan9,cache=loose host /host || echo "weft-vm: cannot see the host's files"
$b mount -t tmpfs -o mode=755,size=80% layer /layer
$b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work root /root
for folder in proc sys dev; do $b mount --move /$folder /root/$folder; done
$b mount -t tmpfs run /root/run
$b mkdir -p /root/run/vm /root/run/lock /root/dev/pts /root/dev/shm
$b mount -t devpts -o mode=620,ptmxmode=666 devpts /root/dev/pts
$b mount -t tmpfs -o mode=1777 shm /root/dev/shm
$b mount -t 9p -o $plan9,cache=none vm /root/run/vm || echo "weft-vm: cannot see the shared folder"
exec $b chroot /root /bin/bash /run/vm/guest
