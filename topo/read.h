/* SPDX-License-Identifier: Apache-2.0 */
/* Where graphs come from: this machine, files, a short text.
 *
 * A reader gets the whole text in memory, its name for messages, and a graph of its own to fill; it neither opens
 * files nor reads the environment. What it cannot read ends in WEFT_INVALID with "NAME:LINE: what was found and what
 * was expected" (line from 1; NAME: alone where no line applies); the graph is then dropped. Input is hostile: every
 * length, number, depth and reference is checked, recursion is bounded (WEFT_READ_DEPTH_MAX), and time and memory
 * stay proportional to the size of the text, or are refused. Each reader has a fuzz target, tests/fuzz/fuzz_topo_*.
 *
 * Kinds are told apart by content, never by the file's name:
 *   hwloc XML      root element <topology>            topo/discover/hwloc.c (tools only)
 *   NCCL XML       root element <system>              topo/machines/nccl.c   (tools only; RCCL's xgmi included; also written)
 *   ibnetdiscover  lines Switch/Ca N "S-..."          topo/files/ibnetdiscover.c
 *   topograph      YAML with switches: or blocks:     topo/files/topograph.c
 *   Slurm          SLURM_TOPOLOGY_ADDR values, "node ADDR [PATTERN]" a line, or topology.conf lines
 *                  (SwitchName=...)                   topo/files/slurm.c, slurm_conf.c
 *   Slurm YAML     topology.yaml                      topo/files/slurm_yaml.c
 *   synthetic      name:key=value,...                 topo/files/synthetic.c
 */
#ifndef WEFT_TOPO_READ_H
#define WEFT_TOPO_READ_H

#include "topo/files/reader.h"

/* Detects the kind and reads; the graph is finished. What is of no kind is named where it is known (topo/others.h). */
int weft_topo_read_text(const struct weft_text *text, struct weft_graph **graph);

/* A regular file's path, or a synthetic text ("fat-tree:..."): a name with ':' of which no file exists. Never blocks. */
int weft_topo_read(const char *path, struct weft_graph **graph);

/* For tools: also "-" for standard input, and pipes and devices by their names. A FIFO without a writer is waited for
 * for 5 s; a writer as long as it has the pipe open. */
int weft_topo_read_any(const char *path, struct weft_graph **graph);

/* Files that describe one machine: the library, which is given fabrics, refuses them, and hwloc, which reads its own, can end a process on
 * what it did not write. Tools that read them say by what (weft_discover_begin() of topo/discover/discover.h), once and before any thread
 * reads. */
void weft_topo_read_machines_by(weft_reader *hwloc, weft_reader *nccl);

/* Lays machines under a fabric: hosts that both graphs have (by name, with or without domain; by a GUID where names
 * differ) become one, the machine's, and its ports (by GUID, by their NIC's GUID or name) are joined to the fabric's
 * switches; ports that only the fabric knows are added, and what only one graph has stays as it is. The result is new and
 * finished; *joined says how many ports were found in the fabric (hosts, where it tells no ports), *added how many hosts of
 * the fabric no machine describes. A machine graph with one host may stand for all hosts of the fabric (`everywhere`): it
 * is copied under each, with ports whose names differ taken in order. */
int weft_fabric_lay(const struct weft_graph *machines, const struct weft_graph *fabric, int everywhere,
                    struct weft_graph **graph, uint32_t *joined, uint32_t *added);

#endif
