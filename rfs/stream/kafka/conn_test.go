package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a connection to a broker that takes at most some bytes at a time.
type wire struct {
	net.Conn

	in      io.Reader
	out     bytes.Buffer
	takes   int // bytes of a write; 0: all
	errorOf error
}

func (w *wire) Read(p []byte) (int, error) { return w.in.Read(p) }

func (w *wire) Write(p []byte) (int, error) {
	if w.takes > 0 && w.takes < len(p) {
		p = p[:w.takes]
		_, _ = w.out.Write(p)
		return len(p), w.errorOf
	}
	return w.out.Write(p)
}

// request returns a request as a client sends it.
func request(kind, version int16, number uint32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	b = binary.BigEndian.AppendUint16(b, uint16(kind))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, number)
	return append(b, body...)
}

// answerTo returns an answer as a broker sends it.
func answerTo(number uint32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(b, number), body...)
}

const fetch = int16(kmsg.Fetch)

// TestWatchedConn_FollowsRequests checks that requests for messages are noted with their versions, however they are cut into writes.
func TestWatchedConn_FollowsRequests(t *testing.T) {
	token := []byte{0, 0, 0, 4, 0, 'u', 0, 'p'} // of brokers before 1.0, which take it as it is
	requests := [][]byte{token, request(fetch, 11, 1, ""), request(3, 7, 2, "metadata"), request(fetch, 12, 3, strings.Repeat("x", 300)), request(18, 0, 4, ""),
		token, request(fetch, 13, 5, "y")}
	for _, size := range []int{1, 2, 3, 5, 12, 13, 100, 1000} {
		t.Run(fmt.Sprint(size, " bytes at a time"), func(t *testing.T) {
			on := &wire{}
			c := &watchedConn{Conn: on, fetches: map[uint32]int16{}}
			for _, r := range requests {
				for part := range slices.Chunk(r, size) {
					if n, err := c.Write(part); n != len(part) || err != nil {
						t.Fatalf("%d bytes, %v", n, err)
					}
				}
			}
			if !bytes.Equal(on.out.Bytes(), slices.Concat(requests...)) {
				t.Error("the broker got something else")
			}
			if got := fmt.Sprint(c.fetches); got != "map[1:11 3:12 5:13]" {
				t.Errorf("requests for messages: %s", got)
			}
		})
	}
}

// TestWatchedConn_FollowsWhatWasWritten checks that a write which was cut off counts as far as it went.
func TestWatchedConn_FollowsWhatWasWritten(t *testing.T) {
	broken := errors.New("broken")
	on := &wire{takes: 10, errorOf: broken}
	c := &watchedConn{Conn: on, fetches: map[uint32]int16{}}
	whole := request(fetch, 11, 1, "body")
	if n, err := c.Write(whole); n != 10 || !errors.Is(err, broken) || len(c.fetches) != 0 {
		t.Errorf("%d bytes, %v, %v", n, err, c.fetches)
	}
	on.takes = 0
	if n, err := c.Write(whole[10:]); n != len(whole)-10 || err != nil || c.fetches[1] != 11 {
		t.Errorf("%d bytes, %v, %v", n, err, c.fetches)
	}
}

// TestWatchedConn_LooksAtAnswersWithMessages checks that the client gets every answer as it was sent, and none with messages before it
// was looked at.
func TestWatchedConn_LooksAtAnswersWithMessages(t *testing.T) {
	const most = 1000
	long := strings.Repeat("x", most-4)
	for _, c := range []struct {
		name   string
		answer []byte
		looked string // what was looked at
	}{
		{"with messages", answerTo(1, "messages"), "messages"},
		{"of no message", answerTo(1, ""), ""},
		{"of another kind", answerTo(2, "metadata"), "none"},
		{"of the longest that is looked at", answerTo(1, long), long},
		{"of a longer one, which the client refuses", answerTo(1, long+"x"), "none"},
		{"without a number", []byte{0, 0, 0, 3, 1, 2, 3}, "none"},
		{"of a negative length", []byte{255, 255, 255, 255}, "none"},
	} {
		for _, size := range []int{1, 7, 4096} {
			t.Run(fmt.Sprint(c.name, ", ", size, " bytes at a time"), func(t *testing.T) {
				next := answerTo(2, "next")
				on := &wire{in: iotest.OneByteReader(bytes.NewReader(slices.Concat(c.answer, next)))}
				looked := "none"
				w := &watchedConn{Conn: on, most: most, fetches: map[uint32]int16{}, answer: func(body []byte, version int16) error {
					if looked = string(body); version != 11 {
						t.Errorf("version %d", version)
					}
					return nil
				}}
				for _, r := range [][]byte{request(fetch, 11, 1, ""), request(3, 1, 2, "")} {
					if _, err := w.Write(r); err != nil {
						t.Fatal(err)
					}
				}
				var got []byte
				part := make([]byte, size)
				for {
					n, err := w.Read(part)
					got = append(got, part[:n]...)
					if err != nil {
						if !errors.Is(err, io.EOF) {
							t.Errorf("%v", err)
						}
						break
					}
				}
				if looked != c.looked || !bytes.Equal(got, slices.Concat(c.answer, next)) {
					t.Errorf("looked at %.20q, the client got %.40q", looked, got)
				}
				if _, noted := w.fetches[1]; noted && c.looked != "none" {
					t.Errorf("a request is still noted: %v", w.fetches)
				}
			})
		}
	}
}

// TestWatchedConn_Errors checks that neither an answer which was refused nor one that is cut off reaches the client.
func TestWatchedConn_Errors(t *testing.T) {
	refused, broken := errors.New("refused"), errors.New("broken")
	whole := answerTo(1, "messages")
	for _, c := range []struct {
		name   string
		in     io.Reader
		refuse error
		want   error
	}{
		{"it is refused", bytes.NewReader(whole), refused, refused},
		{"the connection breaks before it", iotest.ErrReader(broken), nil, broken},
		{"the connection breaks in its number", io.MultiReader(bytes.NewReader(whole[:6]), iotest.ErrReader(broken)), nil, broken},
		{"the connection breaks in its messages", io.MultiReader(bytes.NewReader(whole[:10]), iotest.ErrReader(broken)), nil, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			looked := 0
			w := &watchedConn{Conn: &wire{in: c.in}, most: 1000, fetches: map[uint32]int16{1: 11}, answer: func([]byte, int16) error {
				looked++
				return c.refuse
			}}
			n, err := w.Read(make([]byte, 100))
			if n != 0 || !errors.Is(err, c.want) || (c.refuse == nil) != (looked == 0) {
				t.Errorf("%d bytes, %v, looked at %d times", n, err, looked)
			}
		})
	}
}
