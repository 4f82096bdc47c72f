/* SPDX-License-Identifier: Apache-2.0 */
/* An RDMA device in memory: the verbs transport runs on it in any process, without rdma-core, kernel or hardware.
 *
 * Linked into a program, it stands in for transport/verbs/device.c and load.c: verbs_rails_open() opens fake ports (params.devices
 * "2" opens two, otherwise one; "2 soft" two that bind windows again, as Soft-RoCE does). Queue pairs, shared receive queues, completion queues with channels, registrations and type 2 memory
 * windows follow the InfiniBand specification as far as weft uses them; every request is carried out at once. What the
 * transport promises never to do ends the program: finding no receive at the peer, too many completions or requests,
 * destroying what is in use.
 *
 * Threads: any.
 */
#ifndef WEFT_TESTS_RDMA_FAKE_H
#define WEFT_TESTS_RDMA_FAKE_H

#include <stddef.h>
#include <stdint.h>

/* A frame arrives at the queue pair of that number, as if its peer had sent it. 0 when there is none, or it is in error. */
int rdma_fake_deliver(uint32_t number, const void *bytes, size_t size);
/* The same for an immediate. */
int rdma_fake_immediate(uint32_t number, uint32_t immediate);
/* The queue pair breaks: what it had to do ends with this status (enum ibv_wc_status). */
void rdma_fake_break(uint32_t number, int status);
/* The port of that number (from 0) of every instance goes down or up: its device reports it, and while it is down nothing
 * gets through; a queue pair that tries breaks. silent: no device reports it, as when a switch fails. */
void rdma_fake_port(int number, int is_up, int silent);
/* The same for one instance: the one that was opened as the `instance`-th of those that are open. */
void rdma_fake_plug(int instance, int number, int is_up, int silent);
/* What queue pairs at that port send is acknowledged, and does not arrive, as when an adapter dies behind its wire. */
void rdma_fake_swallow(int number, int is_on);
/* What arrives at that port is in its place, but completes only a while after the queue pair went into error; the
 * device says when ("last request reached"). */
void rdma_fake_delay(int number, int is_on);
/* Queue pairs that are put into error take one receive along. */
void rdma_fake_spill(int is_on);
/* From now on no dma-buf is registered, for this reason (an errno); 0: they are again. */
void rdma_fake_refuse_dmabufs(int error);
/* Registrations of dma-bufs since the program began, those that were refused not counted. */
long rdma_fake_dmabufs(void);
/* Requests of queue pairs at that port that got through since the last time. */
long rdma_fake_carried(int number);
/* Objects that exist: queue pairs, windows, registrations, channels. */
int rdma_fake_count(void);

#endif
