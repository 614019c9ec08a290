package early_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/early"
)

func ExampleStart() {
	size := early.Start(context.Background(), func(context.Context) int { return 42 })
	defer size.Stop()
	fmt.Println(size.Wait())
	// Output: 42
}

func TestResult_StopEndsAndWaits(t *testing.T) {
	ended := false
	r := early.Start(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return ctx.Err()
	})
	select {
	case <-r.Done():
		t.Fatal("the result is made although its context lasts")
	default:
	}
	r.Stop()
	if !ended || r.Wait() == nil {
		t.Error("Stop returned before the goroutine ended")
	}
	(*early.Result[int])(nil).Stop()
}
