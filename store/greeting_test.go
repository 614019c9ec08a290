package store

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// FuzzGreeting feeds the first bytes of a connection to Raft's handshake.
func FuzzGreeting(f *testing.F) {
	l := &layer{cluster: Cluster{ID: "c", Epoch: 7}}
	right := l.hello()
	f.Add(bytes.Clone(right))
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
		err := l.handshake(near)
		near.Close()
		both.Wait()
		if err == nil && !bytes.HasPrefix(b, right) {
			t.Fatalf("% x is let in", b)
		}
	})
}
