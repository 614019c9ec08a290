package importer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

// TestLongLinesTakeTurns: while one window holds a long line, another waits, and ends with its context.
func TestLongLinesTakeTurns(t *testing.T) {
	memory := budget.New(1<<30, 0)
	long := strings.Repeat("x", 2*keepBuffer)
	open := func(ctx context.Context) *lines {
		l := newLines(strings.NewReader(long+"\nshort\n"), 0, maxLine)
		l.turn = turn{ctx: ctx, memory: memory}
		return l
	}
	first := open(t.Context())
	if line, _, err := first.next(); err != nil || len(line) != len(long) || !first.turn.held() {
		t.Fatalf("%d bytes, held %t: %v", len(line), first.turn.held(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := open(ctx).next(); !errors.Is(err, context.Canceled) {
		t.Errorf("a second window while the first holds a long line: %v", err)
	}
	if first.small(); first.turn.held() {
		t.Error("the turn is not released")
	}
	if line, _, err := first.next(); err != nil || string(line) != "short" {
		t.Errorf("behind it: %q, %v", line, err)
	}
	if line, _, err := open(t.Context()).next(); err != nil || len(line) != len(long) {
		t.Errorf("afterwards: %d bytes, %v", len(line), err)
	}
}
