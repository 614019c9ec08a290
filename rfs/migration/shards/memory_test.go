package shards

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

// TestLongDocumentsShareTheBudget: what one lease holds another waits for; it comes back with the document's end, or the
// lease's.
func TestLongDocumentsShareTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100, 0)
		free := func(n int64) bool {
			s, ok := b.Try(n)
			s.Release()
			return ok && !func() bool { s, more := b.Try(n + 1); s.Release(); return more }()
		}
		one, two := &allowance{budget: b}, &allowance{budget: b}
		drop, err := one.Hold(t.Context(), 20, 20)
		if err != nil || !free(20) {
			t.Fatalf("20 bytes and three times 20: %v", err)
		}
		var waited error
		var held func()
		go func() { held, waited = two.Hold(t.Context(), 500, 500) }()
		synctest.Wait()
		if held != nil {
			t.Fatal("it does not wait")
		}
		settled := one.handOver()
		drop()
		settled()
		synctest.Wait()
		if held == nil || waited != nil || !free(0) {
			t.Fatalf("one that is larger than the budget does not run alone: %v", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := one.Hold(ctx, 1, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a lease that ends while it waits: %v", err)
		}
		held()
		two.handOver() // its request is lost with the lease
		two.close()
		if !free(100) {
			t.Error("the end of a lease gives nothing back")
		}
		if err := one.convert(t.Context(), 10, 20); err != nil || !free(30) {
			t.Errorf("a decompressed source: %v", err)
		}
		if err := one.convert(t.Context(), 10, 15); err != nil || !free(30) {
			t.Errorf("another form of it that fits: %v", err)
		}
		settled = one.handOver()
		if !free(60) {
			t.Error("a document that is a body holds more than that and its compressed form")
		}
		settled()
		if drop, err = one.Hold(t.Context(), 10, 0); err != nil || !free(90) {
			t.Errorf("the document behind it: %v", err)
		}
		drop()
		one.close()
	})
}

// TestTheLongestSourceThatIsRead: somewhat more than the target takes, since line breaks go; as it is asked for, once.
func TestTheLongestSourceThatIsRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes int64
		edits bool
		want  int64
	}{
		{"the target's limit", 800, false, 900},
		{"rules may shorten it", 800, true, DefaultMaxDocument},
		{"unknown", 0, false, DefaultMaxDocument},
		{"more than is ever read", 1 << 40, false, DefaultMaxDocument},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			m := &allowance{edits: c.edits, most: func(context.Context) int64 { asked++; return c.takes }}
			for range 2 {
				if n, err := m.MaxSource(t.Context()); err != nil || n != c.want || asked != 1 {
					t.Errorf("%d after %d questions: %v", n, asked, err)
				}
			}
		})
	}
	if n, err := (&allowance{}).MaxSource(t.Context()); err != nil || n != DefaultMaxDocument {
		t.Errorf("files: %d, %v", n, err)
	}
}
