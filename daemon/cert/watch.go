package cert

import (
	"context"
	"os"
	"time"
)

// Watch loads the files again whenever they have changed, until ctx ends; it looks every so often. told
// hears of each loading: nil, or why what was loaded before stays in use. A certificate and its key are
// replaced one after the other; the pair is then loaded at the look after the second.
func (i *Identity) Watch(ctx context.Context, every time.Duration, told func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := i.loaded.Load().seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := i.files.stamp()
		if now == last {
			continue
		}
		last = now
		told(i.Reload())
	}
}

// stamps identify versions of the three files.
type stamps [3]struct {
	size int64
	time int64 // of the last change, in nanoseconds
}

func (f Files) stamp() (s stamps) {
	for n, name := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(name); err == nil {
			s[n].size, s[n].time = info.Size(), info.ModTime().UnixNano()
		}
	}
	return s
}
