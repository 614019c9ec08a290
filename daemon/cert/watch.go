package cert

import (
	"context"
	"os"
	"time"
)

// Watch checks the files at the interval every until ctx is done, and reloads them when they have changed. It calls report with the result
// of each reload: nil, or the reason why the previous files stay in use. A certificate and its key are replaced separately; the pair is
// loaded at the first check after both.
func (i *Identity) Watch(ctx context.Context, every time.Duration, report func(error)) {
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
		report(i.Reload())
	}
}

// stamps identifies versions of the three files.
type stamps [3]struct {
	size int64
	time int64 // modification time, in nanoseconds
}

func (f Files) stamp() (s stamps) {
	for n, name := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(name); err == nil {
			s[n].size, s[n].time = info.Size(), info.ModTime().UnixNano()
		}
	}
	return s
}
