// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Streams how many pages the kernel has on its inactive and active lists for the memory group of one
 * task. `memory.stat` says the same, but to read it brings the counts up to date that the kernel
 * decides by; to read these changes nothing.
 */
#include "kernel.h"
#include "shared.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MAX_NODES 64
#define MAX_ZONES 8

/* Set by user space before loading. */
const volatile u32 nr_nodes SEC(".rodata.nodes") = 1;

SEC("iter/task")
int count_lists(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct lists_record record = {};
	struct mem_cgroup_per_node *node, **nodes;
	unsigned long pages[NR_LRU_LISTS], (*zones)[NR_LRU_LISTS];
	struct cgroup_subsys_state **subsys, *css;
	u32 n, zone, nr_zones;
	struct css_set *set;
	struct mem_cgroup *group;

	if (!task)
		return 0;
	set = BPF_CORE_READ(task, cgroups);
	subsys = (void *)set + bpf_core_field_offset(set->subsys);
	subsys += bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	if (bpf_probe_read_kernel(&css, sizeof(css), subsys) || !css)
		return 0;
	group = (void *)css - bpf_core_field_offset(group->css);
	nodes = (void *)group + bpf_core_field_offset(group->nodeinfo);
	nr_zones = bpf_core_enum_value(enum zone_type, __MAX_NR_ZONES);
	for (n = 0; n < MAX_NODES && n < nr_nodes; n++) {
		if (bpf_probe_read_kernel(&node, sizeof(node), nodes + n) || !node)
			continue;
		zones = (void *)node + bpf_core_field_offset(node->lru_zone_size);
		for (zone = 0; zone < MAX_ZONES && zone < nr_zones; zone++) {
			if (bpf_probe_read_kernel(pages, sizeof(pages), zones + zone))
				continue;
			record.inactive += pages[LRU_INACTIVE_ANON] + pages[LRU_INACTIVE_FILE];
			record.active += pages[LRU_ACTIVE_ANON] + pages[LRU_ACTIVE_FILE];
		}
	}
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
