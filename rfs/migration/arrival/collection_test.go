package arrival_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
)

// collection is a target that shows what it took some time after it was asked first, and that states no operations.
type collection struct {
	*watched
	late   int64
	lag    time.Duration
	asked  time.Time
	counts int
}

func (c *collection) Count(ctx context.Context, name string) (int64, error) {
	n, err := c.watched.Count(ctx, name)
	if c.asked.IsZero() {
		c.asked = time.Now()
	}
	if c.counts++; time.Since(c.asked) < c.lag {
		n -= c.late
	}
	return n, err
}

func (c *collection) Operations(context.Context, string) (target.Operations, error) {
	return target.Operations{}, fmt.Errorf("GET /orders/_stats: %w", target.ErrNotAnswered)
}

func (c *collection) CountLucene(context.Context, string) (int64, error) {
	return 0, fmt.Errorf("GET /orders/_stats: %w", target.ErrNotAnswered)
}

func TestCheck_OfACollection(t *testing.T) {
	const lag = 50 * time.Millisecond
	for _, c := range []struct {
		name           string
		late, extra    int64
		repeats        bool
		lost           []string
		problem, note  string
		counts, bodies int
	}{
		{"everything is shown", 0, 0, false, nil, "", "", 1, 0},
		{"some documents are shown later", 5, 0, false, nil, "", "", 2, 0},
		{"a document is missing and is sent again", 0, 0, false, []string{"1000001"}, "", "1 documents were sent again", 3, 1},
		{"it chooses ids, and shows copies later", 3, 3, true, nil, "", "3 documents are there more often than once", 1, 0},
		{"it chooses ids, and a document is missing", 0, 0, true, []string{"1000001"}, "1 are missing", "", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, check := orders(t)
			of := &collection{watched: w, late: c.late, lag: lag, asked: time.Time{}}
			if w.extra = c.extra; c.repeats {
				of.asked = time.Now()
			}
			w.lose(1, c.lost...)
			check.Counts, check.Lag, check.Repeats = of, lag, c.repeats
			is := checkOrders(t, check)
			if !strings.Contains(is.Problem, c.problem) || (is.Problem == "") != (c.problem == "") || !strings.Contains(is.Note, c.note) || is.Accounted {
				t.Errorf("%+v", is)
			}
			if of.counts != c.counts || (len(w.bodies) > 0) != (c.bodies > 0) {
				t.Errorf("counted %d times, sent %d requests", of.counts, len(w.bodies))
			}
		})
	}
}

var _ arrival.Counts = (*collection)(nil)
