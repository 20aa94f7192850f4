/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The path of a file in its file system, by the kernel's directory entries. Part of census.bpf.c.
 */
#ifndef STRATA_CENSUS_NAMES_H
#define STRATA_CENSUS_NAMES_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, char[NAMES_MAX][NAME_BYTES]);
} names SEC(".maps");

/* Climbs from an entry of a directory to the top. */
struct {
	struct dentry *entry;
	u64 nr_names;
	u64 is_complete;
} climb;

static long take_name(u32 index, void *ctx)
{
	struct dentry *entry = climb.entry, *parent = BPF_CORE_READ(entry, d_parent);
	u32 zero = 0;
	char (*all)[NAME_BYTES] = bpf_map_lookup_elem(&names, &zero);

	if (!all || !parent)
		return 1;
	if (parent == entry && index) {
		climb.is_complete = 1;
		return 1;
	}
	if (bpf_probe_read_kernel_str(all[index & (NAMES_MAX - 1)], NAME_BYTES, BPF_CORE_READ(entry, d_name.name)) < 0)
		return 1;
	climb.nr_names++;
	/* A file without a directory, as memfd makes them. */
	if (parent == entry) {
		climb.is_complete = 1;
		return 1;
	}
	climb.entry = parent;
	return 0;
}

#define ALIASES_MAX 16

/* One of a file's names that is not removed, if there is one: a removed name stays as long as somebody has the file open by it. */
struct {
	struct hlist_node *next;
	struct dentry *entry;
} search;

static long try_alias(u32 index, void *ctx)
{
	struct hlist_node *node = search.next;
	struct dentry *entry = (void *)node - bpf_core_field_offset(struct dentry, d_u);

	if (!node)
		return 1;
	search.next = BPF_CORE_READ(node, next);
	if (!BPF_CORE_READ(entry, d_hash.pprev))
		return 0;
	search.entry = entry;
	return 1;
}

SEC("syscall")
int name_file(struct census_name_call *call)
{
	struct address_space *space = (struct address_space *)call->mapping;
	struct inode *inode = BPF_CORE_READ(space, host);
	struct hlist_node *first;

	call->nr_names = 0;
	call->is_complete = 0;
	call->is_there = 0;
	if (BPF_CORE_READ(inode, i_ino) != call->inode || BPF_CORE_READ(inode, i_sb, s_dev) != call->device ||
	    BPF_CORE_READ(inode, i_generation) != call->generation)
		return 0;
	/*
	 * The struct of a file that is gone says what it was until it is used again, but nobody holds it. A file that has a name in
	 * memory, or that is open, is held.
	 */
	if (BPF_CORE_READ(inode, i_count.counter) <= 0)
		return 0;
	call->is_there = 1;
	if (!bpf_core_field_exists(struct dentry, d_u))
		return 0;
	first = BPF_CORE_READ(inode, i_dentry.first);
	if (!first)
		return 0;
	search.next = first;
	search.entry = (void *)first - bpf_core_field_offset(struct dentry, d_u);
	bpf_loop(ALIASES_MAX, try_alias, 0, 0);
	climb.entry = search.entry;
	climb.nr_names = 0;
	climb.is_complete = 0;
	bpf_loop(NAMES_MAX, take_name, 0, 0);
	call->nr_names = climb.nr_names;
	call->is_complete = climb.is_complete;
	return 0;
}

#endif
