/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Page cache of one file, by the tree in which the kernel keeps it. Part of census.bpf.c.
 *
 * The tree may change meanwhile. Whatever is found is only believed if the struct of the page names this file, and every
 * read may fail.
 */
#ifndef STRATA_CENSUS_FILE_H
#define STRATA_CENSUS_FILE_H

#define NODE_SLOTS 64
#define NODE_SHIFT 6
#define MAX_LEVELS 10
#define MAX_NODES (1 << 20)
#define LOWEST_NODE 4096 /* below, such an entry says that a larger page lies before it */

/* Descends to one node after the other. */
struct {
	struct xa_node *node;
	u64 shift;
	u64 at;    /* page that is looked for */
	u64 entry; /* what is there instead of a node; 0: nothing */
	u64 slots[NODE_SLOTS];
} tree;

static __always_inline u64 is_node(u64 entry)
{
	return (entry & 3) == 2 && entry > LOWEST_NODE;
}

static __always_inline u64 is_folio(u64 entry)
{
	return entry && !(entry & 3);
}

/* Looks at a folio as a census does. */
__noinline int look_at_folio(u64 entry)
{
	if (!is_folio(entry) ||
	    bpf_probe_read_kernel(run.words, PAGE_WORDS * 8, (void *)entry) ||
	    run.words[WORD(mapping)] != run.c.mapping)
		return 0;
	if (run.words[0] & FLAG(PG_head) &&
	    bpf_probe_read_kernel(&run.words[PAGE_WORDS], PAGE_WORDS * 8, (void *)(entry + PAGE_WORDS * 8)))
		return 0;
	run.chosen[0] = 0;
	run.chunk = (entry - run.c.pages_base) / (PAGE_WORDS * 8);
	run.c.nr_looked++;
	look_at_page(0);
	run.is_partly_mapped = 0;
	return 0;
}

static long look_at_slot(u32 index, void *ctx)
{
	look_at_folio(tree.slots[index & (NODE_SLOTS - 1)]);
	return 0;
}

/* Takes one step down; ends at the lowest node, or where there is none. */
static long descend(u32 level, void *ctx)
{
	struct xa_node *node = tree.node;
	u64 place = tree.at >> (tree.shift & 63) & (NODE_SLOTS - 1), entry = 0;

	if (!tree.shift)
		return 1;
	if (bpf_probe_read_kernel(&entry, sizeof(entry), &node->slots[place]))
		entry = 0;
	if (!is_node(entry)) {
		tree.entry = entry;
		tree.node = 0;
		return 1;
	}
	node = (struct xa_node *)(entry - 2);
	tree.node = node;
	tree.shift = BPF_CORE_READ(node, shift);
	return 0;
}

/* All pages below the lowest node in which the next page would be. */
static long list_node(u32 index, void *ctx)
{
	struct address_space *space = (struct address_space *)run.c.mapping;
	struct xa_node *node;
	u64 head;

	if (run.c.nr_records + NODE_SLOTS > MAX_RECORDS)
		return 1;
	if (index && bpf_ktime_get_ns() - run.started_ns > run.c.budget_ns)
		return 1;
	head = (u64)BPF_CORE_READ(space, i_pages.xa_head);
	if (!is_node(head)) {
		if (!run.c.next)
			look_at_folio(head);
		run.c.next = run.c.end;
		return 1;
	}
	tree.at = run.c.next;
	tree.entry = 0;
	node = (struct xa_node *)(head - 2);
	tree.node = node;
	tree.shift = BPF_CORE_READ(node, shift);
	if (tree.shift > 58 || tree.at >> (tree.shift & 63) >> NODE_SHIFT) {
		run.c.next = run.c.end;
		return 1;
	}
	bpf_loop(MAX_LEVELS, descend, 0, 0);
	node = tree.node;
	if (!node)
		look_at_folio(tree.entry);
	else if (!bpf_probe_read_kernel(tree.slots, sizeof(tree.slots), &node->slots))
		bpf_loop(NODE_SLOTS, look_at_slot, 0, 0);
	/* The page after all that the lowest node, or the place where there is none, stands for. */
	if (node)
		run.c.next = (tree.at | (NODE_SLOTS - 1)) + 1;
	else
		run.c.next = (tree.at | ((1ULL << (tree.shift & 63)) - 1)) + 1;
	return run.c.next >= run.c.end;
}

SEC("syscall")
int list_file(struct census_call *call)
{
	struct address_space *space = (struct address_space *)call->mapping;
	struct inode *inode = BPF_CORE_READ(space, host);

	begin(call);
	run.c.file_bytes = 0;
	if (BPF_CORE_READ(inode, i_ino) != call->inode || BPF_CORE_READ(inode, i_sb, s_dev) != call->device ||
	    BPF_CORE_READ(inode, i_generation) != call->generation)
		run.c.next = run.c.end;
	else if (run.c.page_bytes == PAGE_WORDS * 8)
		bpf_loop(MAX_NODES, list_node, 0, 0);
	/* Read afterwards: what is truncated meanwhile is neither told nor within the length. */
	if (BPF_CORE_READ(inode, i_ino) == call->inode && BPF_CORE_READ(inode, i_generation) == call->generation &&
	    (BPF_CORE_READ(inode, i_nlink) || BPF_CORE_READ(inode, i_sb, s_magic) == TMPFS_MAGIC))
		run.c.file_bytes = BPF_CORE_READ(inode, i_size);
	*call = run.c;
	return 0;
}

#endif
