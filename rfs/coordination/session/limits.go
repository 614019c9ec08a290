package session

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Limits are the values that an operator has set during the work. They override the options of every process of the session. nil: the
// option applies; 0: no limit.
type Limits struct {
	MaxRate     *int64 `json:"max_rate,omitempty"`              // bytes per second
	MaxReadRate *int64 `json:"max_read_rate,omitempty"`         // bytes per second
	MaxLatency  *int64 `json:"target_max_latency_ms,omitempty"` // milliseconds
}

// The settings that can be set, named like their options.
const (
	MaxRate     = "max-rate"
	MaxReadRate = "max-read-rate"
	MaxLatency  = "target-max-latency"
)

// Limits of the values: bytes per second, and milliseconds.
const (
	mostRate    = 1 << 50
	mostLatency = int64(time.Hour / time.Millisecond)
)

// limitNames lists the settings in the order in which they are shown.
var limitNames = []string{MaxRate, MaxReadRate, MaxLatency}

// value returns a pointer to a setting's value, and its limit; nil for an unknown name.
func (l *Limits) value(name string) (value **int64, most int64) {
	switch name {
	case MaxRate:
		return &l.MaxRate, mostRate
	case MaxReadRate:
		return &l.MaxReadRate, mostRate
	case MaxLatency:
		return &l.MaxLatency, mostLatency
	}
	return nil, 0
}

// Of returns the value in effect for a setting whose option has the given value.
func (l Limits) Of(name string, option int64) int64 {
	if value, _ := l.value(name); value != nil && *value != nil {
		return **value
	}
	return option
}

// Latency returns the latency limit of the target in effect; 0: none.
func (l Limits) Latency(option time.Duration) time.Duration {
	if l.MaxLatency == nil {
		return option
	}
	return time.Duration(*l.MaxLatency) * time.Millisecond
}

// Same reports whether both set the same values.
func (l Limits) Same(o Limits) bool { return len(l.since(o)) == 0 }

// since returns the orders that change o to l.
func (l Limits) since(o Limits) (orders []string) {
	for _, name := range limitNames {
		is, _ := l.value(name)
		was, _ := o.value(name)
		switch {
		case sameNumber(*is, *was):
		case *is == nil:
			orders = append(orders, "set "+name+" default")
		default:
			orders = append(orders, "set "+name+" "+limitText(name, **is))
		}
	}
	return orders
}

// String returns the settings with their values, as "max-rate 20MiB, target-max-latency 500ms"; "" without any.
func (l Limits) String() string {
	var all []string
	for _, name := range limitNames {
		if value, _ := l.value(name); *value != nil {
			all = append(all, name+" "+limitText(name, **value))
		}
	}
	return strings.Join(all, ", ")
}

// limitText returns a value in the syntax of its option.
func limitText(name string, value int64) string {
	if name == MaxLatency {
		return (time.Duration(value) * time.Millisecond).String()
	}
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); value > 0 && value%size == 0 {
			return strconv.FormatInt(value/size, 10) + unit
		}
	}
	return strconv.FormatInt(value, 10)
}

func (l Limits) check() error {
	for _, name := range limitNames {
		if value, most := l.value(name); *value != nil && (**value < 0 || **value > most) {
			return fmt.Errorf("%s %d: not between 0 and %d: %w", name, **value, most, fault.ErrConfig)
		}
	}
	return nil
}
