package metrics

import "github.com/rfsd/rfsd/rfs/coordination/progress"

// arrived returns a metric of the last round that arrived. It has no value before the first arrival, or if the session is not followed.
func arrived(name, help string, labels []string, read func(emitter, progress.Round)) family {
	return migration(name, help, labels, func(emit emitter, m *progress.Migration, _ state) {
		if m.Rounds == nil {
			return
		}
		if last, ok := m.Rounds.LastArrived(); ok {
			read(emit, last)
		}
	})
}

// followFamilies returns the metrics of a followed session (rfsd follow).
func followFamilies() []family {
	return []family{
		arrived("rfsd_follow_round", "Number of the round that arrived last; 0: the migration of the first snapshot.", nil, func(emit emitter, r progress.Round) {
			emit(gauge, float64(r.Number))
		}),
		arrived("rfsd_follow_round_duration_seconds", "Time that the round that arrived last took, with its snapshot.", nil, func(emit emitter, r progress.Round) {
			emit(gauge, r.Took().Seconds())
		}),
		arrived("rfsd_follow_round_documents", "Documents of the round that arrived last, by what it did with them.", []string{"result"}, func(emit emitter, r progress.Round) {
			emit(gauge, float64(r.Inserted), "inserted")
			emit(gauge, float64(r.Updated), "updated")
			emit(gauge, float64(r.Deleted), "deleted")
			emit(gauge, float64(r.Unchanged), "unchanged")
			emit(gauge, float64(r.Failed), "failed")
		}),
		migration("rfsd_follow_documents_failed", "Documents that failed in all rounds so far.", nil, func(emit emitter, m *progress.Migration, _ state) {
			if m.Rounds != nil {
				emit(gauge, float64(m.Rounds.Failed))
			}
		}),
		migration("rfsd_follow_failures", "Attempts at rounds and cut-overs that failed since a round arrived last; absent when the following was finished.", nil, func(emit emitter, m *progress.Migration, _ state) {
			if m.Rounds != nil && m.Rounds.Finished == nil {
				emit(gauge, float64(m.Rounds.Failures))
			}
		}),
		migration("rfsd_follow_lag_seconds", "Age of the snapshot that arrived last; absent before one has arrived, and when the following was finished.", nil, func(emit emitter, m *progress.Migration, s state) {
			if m.Lag != nil {
				emit(gauge, *m.Lag+s.report.Stale)
			}
		}),
	}
}
