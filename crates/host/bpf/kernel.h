/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The few kernel types our programs touch. Only the members used are named: where they really lie
 * is filled in from the running kernel's BTF when an object is loaded (CO-RE), so one object runs
 * on every kernel that has these names.
 */
#ifndef STRATA_KERNEL_H
#define STRATA_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u64 u64;
typedef __u32 u32;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct mm_struct {
	u64 *pgd;
};

struct page {
	unsigned long flags;
};

/* The first words of a page's struct, under the names they have since Linux 5.16. */
struct folio {
	unsigned long flags;
	unsigned long index;
};

/* Values are the running kernel's, too. */
enum pageflags {
	PG_lru = 5,
	PG_active = 8,
};

struct vm_struct {
	struct page **pages;
};

struct cgroup_subsys_state {
	int id;
};

enum cgroup_subsys_id {
	memory_cgrp_id = 1,
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
};

enum lru_list {
	LRU_INACTIVE_ANON = 0,
	LRU_ACTIVE_ANON = 1,
	LRU_INACTIVE_FILE = 2,
	LRU_ACTIVE_FILE = 3,
	LRU_UNEVICTABLE = 4,
	NR_LRU_LISTS = 5,
};

enum zone_type {
	__MAX_NR_ZONES = 4,
};

/*
 * The lists of one group on one node; pages by zone and list, changed with every page, without delay. The
 * kernel's array is one of arrays, which its type information tells as one.
 */
struct mem_cgroup_per_node {
	unsigned long lru_zone_size[NR_LRU_LISTS];
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct mem_cgroup_per_node *nodeinfo[1];
};

struct task_struct {
	int pid;
	int tgid;
	struct mm_struct *mm;
	struct css_set *cgroups;
	void *stack;
	struct vm_struct *stack_vm_area;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

#pragma clang attribute pop

#define BPF_MAP_TYPE_ARRAY 2

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#endif
