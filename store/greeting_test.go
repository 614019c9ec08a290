package store

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// FuzzGreeting feeds the first bytes of a connection to the greeting of Raft.
func FuzzGreeting(f *testing.F) {
	l := &layer{cluster: Cluster{ID: "c", Epoch: 7}}
	right := l.hello()
	f.Add(append(bytes.Clone(right), purposeRaft))
	f.Add(right[:len(right)-1])
	f.Add([]byte(helloMagic + "\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		var both sync.WaitGroup
		both.Go(func() {
			_, _ = far.Write(b) // the greeting may end before it is through
			far.Close()
		})
		both.Go(func() { _, _ = io.Copy(io.Discard, far) })
		what, err := l.handshake(near)
		near.Close()
		both.Wait()
		if passes := bytes.HasPrefix(b, right) && len(b) > len(right); err == nil && (!passes || what != b[len(right)]) {
			t.Fatalf("% x is greeted as %q", b, what)
		}
	})
}
