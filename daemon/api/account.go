package api

import (
	"net/http"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
)

// Account is the report of a migration at one time, to be archived.
type Account struct {
	Written time.Time      `json:"written"`
	Status  status.Report  `json:"status"`
	Items   map[string]int `json:"items_by_state"`
	Events  []status.Event `json:"events"`
}

// everyItem limits the items that an account counts.
const everyItem = 1_000_000

func (s *Server) account(w http.ResponseWriter, r *http.Request, _ caller) error {
	a := Account{Written: time.Now().UTC(), Status: s.node.Status(r.Context()), Items: map[string]int{}}
	items, err := s.node.Items(r.Context(), status.ItemFilter{Limit: everyItem})
	if err != nil {
		return err
	}
	for _, it := range items {
		a.Items[it.State]++
	}
	events, err := s.node.Events(r.Context(), 0)
	a.Events = orEmpty(events)
	return ok(w, a, err)
}
