/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Page cache as it comes to memory. Part of census.bpf.c.
 *
 * Runs where the kernel adds a folio to page cache: for a read of what is not in memory, for readahead, and for a first write.
 * Reads of what is in memory already do not come here. Several processors may be in it at once, and in it while a census goes on, so it shares nothing with the other programs but
 * the map of watched groups and the places that the first call has found.
 */
#ifndef STRATA_CENSUS_ARRIVALS_H
#define STRATA_CENSUS_ARRIVALS_H

/* File systems on which pages are dropped, as in page_cache/reach.rs. */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* user space makes it larger where arrivals are watched */
} arrivals SEC(".maps");

/* How many found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

SEC("tp_btf/mm_filemap_add_to_page_cache")
int note_arrival(u64 *ctx)
{
	struct folio *folio = (struct folio *)ctx[0];
	u64 words[2 * PAGE_WORDS] = {}, group, id, magic, order = 0, *nr_lost;
	u32 first = 0;
	struct census_arrival *arrival;
	struct address_space *space;
	struct inode *inode;

	if (bpf_probe_read_kernel(words, PAGE_WORDS * 8, folio))
		return 0;
	group = places.group != NOWHERE ? at(words, places.group) : 0;
	if (!group || group & MEMCG_DATA_FLAGS)
		return 0;
	id = id_of_group(group);
	if (!bpf_map_lookup_elem(&watched, &id))
		return 0;
	if (words[0] & FLAG(PG_head)) {
		if (bpf_probe_read_kernel(words + PAGE_WORDS, PAGE_WORDS * 8, (void *)folio + PAGE_WORDS * 8))
			return 0;
		order = (places.order != NOWHERE ? at(words + PAGE_WORDS, places.order) : words[PAGE_WORDS]) & 0xff;
		if (order > MAX_ORDER)
			return 0;
	}
	space = (struct address_space *)words[WORD(mapping)];
	inode = BPF_CORE_READ(space, host);
	magic = BPF_CORE_READ(inode, i_sb, s_magic);
	if (magic != EXT4_MAGIC && magic != XFS_MAGIC)
		return 0;
	arrival = bpf_ringbuf_reserve(&arrivals, sizeof(*arrival), 0);
	if (!arrival) {
		nr_lost = bpf_map_lookup_elem(&lost, &first);
		if (nr_lost)
			__sync_fetch_and_add(nr_lost, 1);
		return 0;
	}
	arrival->mapping = (u64)space;
	arrival->inode = BPF_CORE_READ(inode, i_ino);
	arrival->device = BPF_CORE_READ(inode, i_sb, s_dev);
	arrival->generation = BPF_CORE_READ(inode, i_generation);
	arrival->index = words[WORD(index)];
	arrival->nr_pages = 1ULL << (order & 31);
	/* User space looks by itself: waking it for each page would cost the reader more than the page. */
	bpf_ringbuf_submit(arrival, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
