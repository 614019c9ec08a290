package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// histogram is a distribution of durations.
type histogram struct {
	family
	latency func(Sample) Latency
}

func histograms() []histogram {
	return []histogram{
		{family{name: "rfsd_bulk_request_duration_seconds", help: "Time from sending a bulk request to the target to its answer, in seconds."},
			func(s Sample) Latency { return s.Bulk }},
		{family{name: "rfsd_store_request_duration_seconds", help: "Time of requests to the coordination store, in seconds."},
			func(s Sample) Latency { return s.Store }},
	}
}

// families returns all metrics of this program except the histograms. Names end in their unit.
func families() []family {
	return slices.Concat(workFamilies(), nodeFamilies(), migrationFamilies(), followFamilies())
}

// total returns a counter without labels.
func total(name, help string, read func(Sample) int64) family {
	return family{name: name, help: help, read: func(emit emitter, s state) {
		emit(counter, float64(read(s.sum)))
	}}
}

// workFamilies returns the metrics of this node's workers.
func workFamilies() []family {
	return []family{
		{"rfsd_documents_total", "Documents that this node's workers are done with: indexed by the target, or recorded as failed.", []string{"result"},
			func(emit emitter, s state) {
				emit(counter, float64(s.sum.Documents-s.sum.Failed), "indexed")
				emit(counter, float64(s.sum.Failed), "failed")
			}},
		total("rfsd_documents_resent_total", "Documents that were sent again because the target was busy.", func(s Sample) int64 { return s.Resent }),
		total("rfsd_documents_refused_total", "Documents that the target refused permanently, as it answered.", func(s Sample) int64 { return s.BulkRefused }),
		total("rfsd_source_bytes_total", "Bytes of the sources of indexed documents.", func(s Sample) int64 { return s.SourceBytes }),
		total("rfsd_bulk_bytes_total", "Bytes of bulk bodies sent to the target, before compression.", func(s Sample) int64 { return s.BulkBytes }),
		total("rfsd_bulk_retries_total", "Bulk requests that were repeated, whole or in part.", func(s Sample) int64 { return s.Retries }),
		total("rfsd_bulk_throttled_total", "Bulk requests that the target answered with 429 for the whole or for documents in it.", func(s Sample) int64 { return s.BulkBusy }),
		total("rfsd_bulk_errors_total", "Bulk requests without a usable answer.", func(s Sample) int64 { return s.BulkErrors }),
		total("rfsd_repository_requests_total", "Requests to the snapshot repository.", func(s Sample) int64 { return s.RepoRequests }),
		total("rfsd_repository_bytes_total", "Bytes read from the snapshot repository.", func(s Sample) int64 { return s.RepoBytes }),
		total("rfsd_repository_errors_total", "Requests to the snapshot repository that failed after their retries.", func(s Sample) int64 { return s.RepoErrors }),
		total("rfsd_store_errors_total", "Requests to the coordination store that failed.", func(s Sample) int64 { return s.StoreErrors }),
		{"rfsd_leases_total", "Leases of this node's workers by how they ended.", []string{"outcome"},
			func(emit emitter, s state) { counts(emit, s.leases) }},
		{"rfsd_worker_crashes_total", "Workers that did not end cleanly, by what ended them.", []string{"class"},
			func(emit emitter, s state) { counts(emit, s.ends) }},
		{"rfsd_worker_restarts_total", "Workers that were started to replace an ended worker.", nil,
			func(emit emitter, s state) { emit(counter, float64(s.restarts)) }},
		{"rfsd_workers_reaped_total", "Workers that were killed because their lease was over by the store's clock.", nil,
			func(emit emitter, s state) { emit(counter, float64(s.reaped)) }},
		{"rfsd_connections_refused_total", "Connections that a socket or port of the API refused, or ended before they showed a certificate.", []string{"listener"},
			func(emit emitter, s state) { counts(emit, s.refused) }},
		{"rfsd_events_sent_total", "Events for the webhook or the command, by what became of them.", []string{"sink", "result"},
			func(emit emitter, s state) {
				keys := slices.SortedFunc(maps.Keys(s.events), func(a, b [2]string) int {
					return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
				})
				for _, k := range keys {
					emit(counter, float64(s.events[k]), k[0], k[1])
				}
			}},
		{"rfsd_rate_limit_bytes_per_second", "Bytes per second that this node sends at most, its part of the --max-rate of its fleet; 0: no limit.", nil,
			func(emit emitter, s state) { emit(gauge, float64(s.limit)) }},
		{"rfsd_read_rate_limit_bytes_per_second", "Bytes per second that this node reads at most of the repository, its part of the --max-read-rate of its fleet; 0: no limit.", nil,
			func(emit emitter, s state) { emit(gauge, float64(s.reading)) }},
	}
}

// nodeFamilies returns the metrics of the node.
func nodeFamilies() []family {
	return []family{
		{"rfsd_node_info", "Always 1; version and state of the node are labels.", []string{"version", "state"}, func(emit emitter, s state) {
			if s.report != nil {
				emit(gauge, 1, s.report.Node.Version, s.report.Node.State)
			}
		}},
		{"rfsd_workers_wanted", "Workers that this node wants to run.", nil, func(emit emitter, s state) {
			if s.report != nil {
				emit(gauge, float64(s.report.Node.Wanted))
			}
		}},
		{"rfsd_workers_running", "Workers that run on this node.", nil, func(emit emitter, s state) {
			if s.report != nil {
				emit(gauge, float64(s.report.Node.Running))
			}
		}},
		{"rfsd_workers_in_phase", "Workers that run on this node by the phase that they act on and the state of its record.", []string{"phase", "state"}, func(emit emitter, s state) {
			if s.report == nil {
				return
			}
			in := map[[2]string]int{}
			for _, w := range s.report.Workers {
				if w.Phase != "" {
					in[[2]string{w.Phase, w.PhaseState}]++
				}
			}
			for _, at := range slices.SortedFunc(maps.Keys(in), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
				emit(gauge, float64(in[at]), at[0], at[1])
			}
		}},
		{"rfsd_worker_resident_bytes", "Resident memory of a worker process.", []string{"slot"}, func(emit emitter, s state) {
			if s.report == nil {
				return
			}
			for _, w := range s.report.Workers {
				if w.Resident > 0 {
					emit(gauge, float64(w.Resident), strconv.Itoa(w.Slot))
				}
			}
		}},
		machines("rfsd_machines_wanted", "Machines that the scaler of the fleet wants to run.", func(m *status.Machines) float64 { return float64(m.Wanted) }),
		machines("rfsd_machines_running", "Machines that run, as the driver of the scaler reported.", func(m *status.Machines) float64 { return float64(m.Running) }),
		machines("rfsd_machines_instance_hours", "Instance hours that the scaler of the fleet has used.", func(m *status.Machines) float64 { return m.Hours }),
		machines("rfsd_machines_driver_failing", "1 when the last call of the scaler's driver failed, else 0.", func(m *status.Machines) float64 { return truth(m.Error != "") }),
		{"rfsd_store_reachable", "1 when the last reading of the coordination store succeeded, else 0.", nil, func(emit emitter, s state) {
			if s.report != nil {
				emit(gauge, truth(s.report.StoreError == "" && s.report.Migration != nil))
			}
		}},
	}
}

// machines returns a gauge of the fleet's scaler. It has no value without a scaler.
func machines(name, help string, read func(*status.Machines) float64) family {
	return family{name, help, nil, func(emit emitter, s state) {
		if s.report != nil && s.report.Machines != nil {
			emit(gauge, read(s.report.Machines))
		}
	}}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// migration returns a gauge of the whole migration, as of the last read of the store. It has no value before the first.
func migration(name, help string, labels []string, read func(emitter, *progress.Migration, state)) family {
	return family{name, help, labels, func(emit emitter, s state) {
		if s.report != nil && s.report.Migration != nil {
			read(emit, s.report.Migration, s)
		}
	}}
}

// migrationFamilies returns the metrics of the whole migration, which are the same on every node.
func migrationFamilies() []family {
	return []family{
		migration("rfsd_migration_age_seconds", "Age of the last reading of the coordination store.", nil, func(emit emitter, _ *progress.Migration, s state) {
			emit(gauge, s.report.Stale)
		}),
		migration("rfsd_migration_complete", "1 when every phase has ended and no work item is open.", nil, func(emit emitter, m *progress.Migration, _ state) {
			emit(gauge, truth(m.Complete))
		}),
		migration("rfsd_migration_items", "Work items of the migration by state.", []string{"state"}, func(emit emitter, m *progress.Migration, _ state) {
			t := m.Totals
			emit(gauge, float64(t.ItemsOpen-t.Leased-t.Expired), "free")
			emit(gauge, float64(t.Expired), "expired")
			emit(gauge, float64(t.Leased), "leased")
			emit(gauge, float64(t.Items-t.ItemsOpen-t.ItemsBad), "done")
			emit(gauge, float64(t.ItemsBad), "failed")
		}),
		migration("rfsd_stream_lag_messages", "Offsets of a stream between the consumed position and the ends of its partitions.", nil, func(emit emitter, m *progress.Migration, _ state) {
			if m.Stream != nil {
				emit(gauge, float64(m.Stream.Lag))
			}
		}),
		migration("rfsd_stream_nodes", "Processes that consume a stream, by whether they have a partition.", []string{"state"}, func(emit emitter, m *progress.Migration, _ state) {
			if m.Stream != nil {
				emit(gauge, float64(m.Stream.Nodes-int64(len(m.Stream.Idle))), "busy")
				emit(gauge, float64(len(m.Stream.Idle)), "idle")
			}
		}),
		migration("rfsd_migration_shards", "Shards of the migration by state.", []string{"state"}, func(emit emitter, m *progress.Migration, _ state) {
			emit(gauge, float64(m.Totals.Shards-m.Totals.ShardsDone-m.Totals.ShardsFailed), "open")
			emit(gauge, float64(m.Totals.ShardsDone), "ended")
			emit(gauge, float64(m.Totals.ShardsFailed), "failed")
		}),
		migration("rfsd_migration_documents", "Documents of the migration that are dealt with, as recorded in the store.", []string{"result"}, func(emit emitter, m *progress.Migration, _ state) {
			emit(gauge, float64(m.Totals.Indexed), "indexed")
			emit(gauge, float64(m.Totals.Failed), "failed")
			emit(gauge, float64(m.Totals.Filtered), "filtered")
			emit(gauge, float64(m.Totals.Kept), "kept")
		}),
		migration("rfsd_migration_documents_reduced", "Indexed documents whose source may lack indexed parts.", nil, func(emit emitter, m *progress.Migration, _ state) {
			emit(gauge, float64(m.Totals.Reduced))
		}),
		migration("rfsd_migration_documents_sent_again", "Copies of documents beyond the first: by repeated requests, after hand-overs, and documents that replaced one from before the session.", []string{"cause"}, func(emit emitter, m *progress.Migration, _ state) {
			emit(gauge, float64(m.Totals.Retried), "retry")
			emit(gauge, float64(m.Totals.Resent), "handover")
			emit(gauge, float64(m.Totals.Replaced), "earlier_run")
		}),
		migration("rfsd_migration_bytes", "Repository bytes of the shards of the migration.", []string{"state"}, func(emit emitter, m *progress.Migration, _ state) {
			emit(gauge, float64(m.Totals.BytesDone), "done")
			emit(gauge, float64(m.Totals.BytesLeft()), "open")
			emit(gauge, float64(m.Totals.BytesLost), "lost")
		}),
		migration("rfsd_migration_eta_seconds", "Estimated time to the end by bytes; absent when it is unknown or no work is wanted.", nil, func(emit emitter, _ *progress.Migration, s state) {
			if s.report.Progress.Left != nil {
				emit(gauge, *s.report.Progress.Left)
			}
		}),
		migration("rfsd_migration_documents_per_second", "Documents per second of the whole migration over the last minute.", nil, func(emit emitter, _ *progress.Migration, s state) {
			emit(gauge, s.report.Progress.Rate)
		}),
		migration("rfsd_migration_share_ratio", "Part of the repository bytes that is done, 0 to 1.", nil, func(emit emitter, _ *progress.Migration, s state) {
			emit(gauge, s.report.Progress.Share)
		}),
		migration("rfsd_migration_given_up", "Work items, indices and phases that failed and do not become complete by themselves.", nil, func(emit emitter, _ *progress.Migration, s state) {
			emit(gauge, float64(s.report.Progress.GivenUp))
		}),
		migration("rfsd_migration_quiet_seconds", "Time without an arriving document while items are in progress.", nil, func(emit emitter, _ *progress.Migration, s state) {
			emit(gauge, s.report.Progress.Quiet)
		}),
		migration("rfsd_phase_duration_seconds", "Time from the start of a phase to its end, or to now.", []string{"phase"}, func(emit emitter, m *progress.Migration, s state) {
			for _, p := range m.Phases {
				if p.Started == nil {
					continue
				}
				end := m.ReadAt
				if p.Finished != nil {
					end = *p.Finished
				}
				emit(gauge, max(end.Sub(*p.Started).Seconds(), 0), p.Name)
			}
		}),
	}
}
