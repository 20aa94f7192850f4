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
typedef __u8 u8;

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

typedef struct {
	int counter;
} atomic_t;

struct address_space;

/*
 * The words of a page's struct, under the names they have since Linux 5.16. Those of a large folio go on in the struct
 * of its second page: 6.1 has an order and a count of the times that all of it is mapped, later kernels have the order in
 * the lowest byte of `_flags_1` and a count of the pages mapped.
 */
struct folio {
	unsigned long flags;
	struct address_space *mapping;
	unsigned long index;
	atomic_t _mapcount;
	unsigned long memcg_data;
	unsigned long _flags_1;
	unsigned char _folio_dtor;
	unsigned char _folio_order;
	atomic_t _total_mapcount;
	atomic_t _large_mapcount;
	atomic_t _nr_pages_mapped;
};

/* Values are the running kernel's, too. */
enum pageflags {
	PG_writeback = 1,
	PG_referenced = 2,
	PG_dirty = 4,
	PG_lru = 5,
	PG_head = 6,
	PG_active = 8,
	PG_hugetlb = 8, /* 6.6 to 6.8, of a large folio's second page */
	PG_workingset = 9,
	PG_reserved = 13,
	PG_swapbacked = 17,
	PG_unevictable = 18,
	PG_uptodate = 3,
	PG_swapcache = 10,
	PG_slab = 7, /* until 6.9 */
	__NR_PAGEFLAGS = 24,
};

/* Since 6.11; what a page is that is neither free for a program nor mapped, in the highest byte of its type. */
enum pagetype {
	PGTY_hugetlb = 0xf4,
};

/* Until 6.5. */
enum compound_dtor_id {
	HUGETLB_PAGE_DTOR = 2,
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct hlist_bl_node {
	struct hlist_bl_node *next, **pprev;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct xarray {
	void *xa_head;
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned int i_nlink;
	u32 i_rdev;
	long long i_size;
	u32 i_generation;
	atomic_t i_count;
	struct hlist_head i_dentry;
	struct address_space i_data;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct hlist_bl_node d_hash;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct vm_struct {
	struct page **pages;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
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

struct mempolicy {
	unsigned short mode;
};

struct task_struct {
	int pid;
	int tgid;
	struct mm_struct *mm;
	struct css_set *cgroups;
	void *stack;
	struct vm_struct *stack_vm_area;
	struct mempolicy *mempolicy;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	struct mempolicy *vm_policy;
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

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1
#define BPF_RB_NO_WAKEUP 1

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#endif
