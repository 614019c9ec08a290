package sim

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// object is an object of the simulated bucket.
type object struct {
	body    string
	version string
}

// bucket is one machine's view of the server if the coordination state is in a bucket. Its requests have the same fates as requests to a
// store. Writes are mirrored as items and records, which the checks use.
type bucket struct{ *network }

// listing is a page of names and versions.
type listing struct {
	names, versions []string
	more            bool
}

// bucketPage is the page size of a listing, small so that a listing has several pages.
const bucketPage = 20

func (b bucket) Get(ctx context.Context, name string) ([]byte, string, error) {
	o, err := call(ctx, b.network, "get "+name, func() (object, error) {
		o, ok := b.s.objects[name]
		if !ok {
			return o, fs.ErrNotExist
		}
		return o, nil
	})
	return []byte(o.body), o.version, readError(err)
}

// readError returns the error of a read: a server answers 409 to writes only, so a conflict becomes a busy server.
func readError(err error) error {
	if errors.Is(err, cms.ErrConflict) {
		return fault.ErrUnavailable
	}
	return err
}

func (b bucket) Put(ctx context.Context, name string, body []byte, version string) (string, error) {
	text := string(body)
	is, err := call(ctx, b.network, "put "+name, func() (string, error) {
		if b.s.objects[name].version != version {
			return "", fs.ErrExist
		}
		b.s.rev++
		o := object{text, strconv.FormatInt(b.s.rev, 10)}
		b.s.objects[name] = o
		return o.version, b.s.mirror(name, text)
	})
	switch { // the fate Conflict
	case !errors.Is(err, cms.ErrConflict):
		return is, err
	case version == "": // 409: another write was in flight, and may have stored nothing
		return "", fault.ErrUnavailable
	}
	return "", fs.ErrExist
}

func (b bucket) List(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	l, err := call(ctx, b.network, "list "+prefix, func() (l listing, err error) {
		for name := range b.s.objects {
			if strings.HasPrefix(name, prefix) && name > after {
				l.names = append(l.names, name)
			}
		}
		slices.Sort(l.names)
		if l.more = len(l.names) > bucketPage; l.more {
			l.names = l.names[:bucketPage]
		}
		for _, name := range l.names {
			l.versions = append(l.versions, b.s.objects[name].version)
		}
		return l, nil
	})
	return l.names, l.versions, l.more, readError(err)
}

func (b bucket) Date(ctx context.Context, name string) (time.Time, error) {
	now, err := call(ctx, b.network, "date "+name, func() (time.Time, error) { return b.s.clock().Truncate(time.Second), nil })
	return now, readError(err)
}

// mirror stores the content of an object as an item or a record.
func (s *server) mirror(name, body string) error {
	switch {
	case strings.Contains(name, "/items/"):
		var is struct {
			ID string `json:"id"`
			cms.Item
		}
		if err := json.Unmarshal([]byte(body), &is); err != nil {
			return err
		}
		is.Item.ID = is.ID
		old := s.items[is.ID]
		s.note(is.ID)
		s.items[is.ID] = is.Item
		if old.Successors == "" && is.Successors != "" {
			s.applied["successors applied"]++
		}
		if old.Open() && !is.Open() {
			s.applied["complete applied"]++
		}
		if is.FailedItem() && !old.FailedItem() {
			s.w.itemFailed(is.Item)
		}
	case strings.Contains(name, "/records/"):
		var is struct {
			ID      string `json:"id"`
			Rev     int64  `json:"rev"`
			Deleted bool   `json:"deleted"`
			cms.Record
		}
		if err := json.Unmarshal([]byte(body), &is); err != nil {
			return err
		}
		is.Record.ID, is.Revision = is.ID, cms.Revision{Seq: is.Rev, Term: 1}
		if s.records[is.ID] = is.Record; is.Deleted {
			delete(s.records, is.ID)
		}
	}
	return nil
}
