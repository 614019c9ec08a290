package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestSession_RefusedAlias: a migration ends although the target refuses an alias. All else is done, the summary names the alias, and
// the next run sets it.
func TestSession_RefusedAlias(t *testing.T) {
	const second = `{"error":{"type":"illegal_state_exception","reason":"alias [w] has more than one write index [stored,old]"},"status":500}`
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.on.Refused = map[string]error{"w": fault.CheckStatus("POST /_aliases", 500, []byte(second))}
		w.on.Late = `{"r":{"filter":{}},"w":{"is_write_index":true}}`
		begin := time.Now()
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if len(sum.Problems) != 1 || sum.Problems[0].Index != "stored" || !strings.Contains(sum.Problems[0].Reason, "refuses the alias w of stored") || !strings.Contains(sum.Problems[0].Reason, "more than one write index") || !strings.Contains(sum.Problems[0].Reason, "run the same command of rfsd migrate again") {
			t.Errorf("problems: %+v", sum.Problems)
		}
		if got := w.on.AliasesOf["stored"]; got != `{"r":{"filter":{}}}` {
			t.Errorf("aliases that were set: %s", got)
		}
		if sum.Indices[0].AliasesWait || sum.Indices[0].Done != 2 {
			t.Errorf("%+v", sum.Indices[0])
		}
		w.on.Refused = nil
		if sum, err = w.run(t, 2, &migrationtest.Life{}); err != nil || len(sum.Problems) != 0 {
			t.Errorf("the next run: %+v, %v", sum.Problems, err)
		}
		if got := w.on.AliasesOf["stored"]; got != `{"r":{"filter":{}},"w":{"is_write_index":true}}` {
			t.Errorf("aliases that were set: %s", got)
		}
	})
}

// TestSession_ConfigurationOfAnIndex: what the user has to change first fails an index at once, without another attempt.
func TestSession_ConfigurationOfAnIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.on.Wrong = map[string]error{"stored": fmt.Errorf("stored is an alias of 2 indices of the target: %w", fault.ErrConfig)}
		begin := time.Now()
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if err != nil || len(sum.Problems) == 0 || !strings.Contains(sum.Problems[0].Reason, "alias of 2 indices") {
			t.Fatalf("%+v, %v", sum, err)
		}
		if took, tries := time.Since(begin), w.on.Created["tried stored"]; tries != 1 || took > 5*time.Second {
			t.Errorf("%d attempts in %v", tries, took)
		}
		w.on.Wrong = nil
		if sum, err = w.run(t, 2, &migrationtest.Life{}); err != nil || len(sum.Problems) != 0 || sum.Totals.Indexed == 0 {
			t.Errorf("the next run: %+v, %v", sum.Problems, err)
		}
	})
}
