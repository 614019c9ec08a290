package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"time"
)

// objects is the output of an attempt at an item to a bucket: the documents of each index in numbered objects
// <index>/<shard>-<cursor>.<attempt>-<number>.ndjson[.gz|.zst]. Each can be read alone.
type objects struct {
	bucket  *bucket
	item    item
	may     func() error // see Export.Create
	id      string       // of the attempt, random
	version string       // of the item's note, as this attempt wrote it

	superseded []string // attempts

	open      map[string]*object // by index
	number    int                // of the next object
	names     []string           // of all objects that may be stored
	stored    []noted
	published bool // or the outcome is unknown
}

// attemptName matches the base names of objects. The group is the id of the attempt.
var attemptName = regexp.MustCompile(`^[0-9]+-[0-9]+\.([0-9a-f]{16})-[0-9]{6,}\.ndjson(\.gz|\.zst)?$`)

// attemptOf returns the attempt that an object belongs to; "" for the name of another file.
func attemptOf(name string) string {
	if m := attemptName.FindStringSubmatch(path.Base(name)); m != nil {
		return m[1]
	}
	return ""
}

// OfAttempt reports whether a file has the name of an object of an attempt. If a finished manifest does not list it, its attempt was superseded.
func OfAttempt(name string) bool { return attemptOf(name) != "" }

// object holds documents of one index that are not yet stored.
type object struct {
	*encoder
	number int
	buf    bytes.Buffer // compressed
}

func (o *objects) write(ctx context.Context, index string, b []byte, documents int64) error {
	x := o.open[index]
	if x == nil {
		x = &object{number: o.number}
		o.number++
		var err error
		if x.encoder, err = newEncoder(&x.buf, o.bucket.format); err != nil {
			return err
		}
		o.open[index] = x
	}
	if err := x.write(b, documents); err != nil {
		return err
	}
	for o.buffered() >= o.bucket.size {
		if err := o.put(ctx, o.largest()); err != nil {
			return err
		}
	}
	return nil
}

// buffered returns the number of bytes of all open objects.
func (o *objects) buffered() int64 {
	var n int64
	for _, x := range o.open {
		n += x.sum.n.Load()
	}
	return n
}

// largest returns the index of the largest open object.
func (o *objects) largest() string {
	return slices.MaxFunc(slices.Collect(maps.Keys(o.open)), func(a, b string) int {
		return int(o.open[a].sum.n.Load() - o.open[b].sum.n.Load())
	})
}

// put stores the open object of an index. A repeated call stores the same object under the same name.
func (o *objects) put(ctx context.Context, index string) error {
	x := o.open[index]
	if err := x.finish(); err != nil {
		return err
	}
	name := path.Join(EncodeName(index), fmt.Sprintf("%s.%s-%06d%s", o.item.name, o.id, x.number, o.bucket.format.extension))
	o.names = append(o.names, name)
	version, err := o.bucket.swap(ctx, name, x.buf.Bytes(), "")
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists with other content, which rfsd did not write: %w", name, err)
	}
	if err != nil {
		return err
	}
	o.stored = append(o.stored, noted{Entry: x.entry(name), Index: index, Version: version})
	delete(o.open, index)
	return nil
}

// finish stores all open objects.
func (o *objects) finish(ctx context.Context) error {
	for _, index := range slices.Sorted(maps.Keys(o.open)) {
		if err := o.put(ctx, index); err != nil {
			return err
		}
	}
	return nil
}

// publish replaces the note of the item on the condition that no later attempt has started, which would have changed the note.
func (o *objects) publish(ctx context.Context) error {
	if o.may != nil {
		if err := o.may(); err != nil {
			return err
		}
	}
	o.published = true // unless the store refuses it
	_, err := o.bucket.putNote(ctx, o.item, note{append([]noted{}, o.stored...), nil, o.id, o.superseded}, o.version)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	// An earlier try whose response was lost may have succeeded before the later attempt started, which keeps its files until then.
	n, _, err := o.bucket.note(ctx, noteName(o.item))
	o.published = err != nil || slices.ContainsFunc(n.Files, func(f noted) bool { return attemptOf(f.Name) == o.id })
	return errors.Join(ErrSuperseded, err)
}

// removeTimeout bounds the removal of the objects of an attempt that has failed. Finish removes the others.
const removeTimeout = 10 * time.Second

// remove removes the objects of an attempt that is not published. If the outcome of publish is unknown, they stay.
func (o *objects) remove() error {
	for _, x := range o.open {
		x.abandon()
	}
	o.open = map[string]*object{}
	if o.published {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	var all error
	for _, name := range o.names {
		all = errors.Join(all, o.bucket.delete(ctx, name))
	}
	o.names = nil
	return all
}
