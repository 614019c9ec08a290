package config

import (
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// LimitValue returns the value of a setting that rfsctl set sets, as its option takes it: bytes per second, or ms; nil for "default".
func LimitValue(name, text string) (*int64, error) {
	var o struct {
		Reading ReadPace
		Bulk    Bulk
	}
	values := Values{name: {text}}
	if text == "default" {
		values = nil
	}
	if err := Decode(values, &o); err != nil {
		return nil, err
	}
	value, known := map[string]int64{
		session.MaxRate: int64(o.Bulk.MaxRate), session.MaxReadRate: int64(o.Reading.Max),
		session.MaxLatency: (o.Bulk.MaxLatency + time.Millisecond - 1).Milliseconds(),
	}[name]
	switch {
	case !known:
		return nil, Usage("rfsctl set: %q cannot be set while the work runs: want %s, %s or %s", name, session.MaxRate, session.MaxReadRate, session.MaxLatency)
	case text == "default":
		return nil, nil //nolint:nilnil // no value
	}
	return &value, nil
}
