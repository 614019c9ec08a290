package progress

import (
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// maxHolders limits the holders of leases that a Migration lists.
const maxHolders = 10

// Activity collects from the items of a session the time of the last report, and the holders of leases.
type Activity struct {
	last    int64 // epoch ms; 0: never
	holders map[string]Holder
}

// Add adds an item. now is the store's clock.
func (a *Activity) Add(it cms.Item, now time.Time) {
	a.last = max(a.last, it.AcquiredAt, it.ReportedAt, 1000*it.CompletedAt)
	expiry := time.Unix(it.Expiration, 0).UTC()
	if !it.Open() || it.Holder == "" || !expiry.After(now) {
		return
	}
	if a.holders == nil {
		a.holders = map[string]Holder{}
	}
	h := a.holders[it.Holder]
	h.Name = it.Holder
	if h.Items++; expiry.After(h.Expiry) {
		h.Expiry = expiry
	}
	a.holders[it.Holder] = h
}

// Set sets LastReport and Holders of m.
func (a *Activity) Set(m *Migration) {
	if a.last > 0 {
		m.LastReport = instant(a.last)
	}
	for _, name := range sortedKeys(a.holders) {
		m.Holders = append(m.Holders, a.holders[name])
	}
	slices.SortStableFunc(m.Holders, func(a, b Holder) int { return b.Expiry.Compare(a.Expiry) })
	m.Holders = m.Holders[:min(len(m.Holders), maxHolders)]
}
