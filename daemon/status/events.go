package status

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// ReadEvents reads the events of a session from its store, newest last.
func ReadEvents(ctx context.Context, store *cms.Coordinator) ([]Event, error) {
	var all []Event
	for r, err := range session.List(ctx, store, "event") {
		if err != nil {
			return nil, err
		}
		all = append(all, eventOf(r))
	}
	slices.SortStableFunc(all, func(x, y Event) int { return x.Time.Compare(y.Time) })
	return all, nil
}

func eventOf(r cms.Record) Event {
	e := Event{ID: r.ID, Time: progress.Time(r.CreatedAt), Code: r.State}
	var body struct{ Subject, Item, Code, Detail string }
	if json.Unmarshal(r.Body, &body) == nil {
		e.Subject, e.Item, e.Detail = body.Subject, body.Item, body.Detail
		if body.Code != "" {
			e.Code = body.Code
		}
	} else if parts := strings.Split(r.ID, ":"); len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			e.Subject = string(raw)
		}
	}
	return e
}
