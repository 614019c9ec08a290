package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// errNotKept means that bytes are not a result of encodeTallied.
var errNotKept = errors.New("not as it was kept")

// encodeTallied encodes the tallies of a part of a unit by target index, and the reason why the rest cannot be read ("": all was
// read), followed by a digest.
func encodeTallied(found tallies, problem string) []byte {
	b := binary.AppendUvarint(appendText(nil, problem), uint64(len(found)))
	for _, index := range slices.Sorted(maps.Keys(found)) {
		t := found[index]
		b = appendText(b, index)
		b = binary.AppendUvarint(b, uint64(t.documents))
		b = binary.AppendUvarint(b, uint64(t.filtered))
		b = appendTally(b, &t.failed)
		b = binary.AppendUvarint(b, uint64(len(t.unsent)))
		for _, reason := range slices.Sorted(maps.Keys(t.unsent)) {
			b = binary.AppendUvarint(appendText(b, reason), uint64(t.unsent[reason]))
		}
		b = binary.AppendUvarint(b, uint64(len(t.table.buckets)))
		for _, i := range slices.Sorted(maps.Keys(t.table.buckets)) {
			b = appendTally(binary.AppendUvarint(b, uint64(i)), t.table.buckets[i])
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTally(b []byte, t *Tally) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(t.Documents)), uint64(t.Bytes))
	for _, s := range []Sum{t.Keys, t.Exact, t.Values} {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, s.hi), s.lo)
	}
	return b
}

// kepts decodes the form of encodeTallied. After an error all results are zero.
type kepts struct {
	b   []byte
	err error
}

func (k *kepts) number() int64 {
	n, size := binary.Uvarint(k.b)
	if size <= 0 || n > 1<<62 {
		k.b, k.err = nil, errNotKept
		return 0
	}
	k.b = k.b[size:]
	return int64(n)
}

func (k *kepts) take(n int64) []byte {
	if n > int64(len(k.b)) {
		k.b, k.err = nil, errNotKept
		return nil
	}
	b := k.b[:n]
	k.b = k.b[n:]
	return b
}

func (k *kepts) tally() (t Tally) {
	t.Documents, t.Bytes = k.number(), k.number()
	for _, s := range []*Sum{&t.Keys, &t.Exact, &t.Values} {
		if b := k.take(16); b != nil {
			*s = Sum{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
		}
	}
	return t
}

// decodeTallied decodes a result of encodeTallied for the target indices in among. It returns errNotKept for other bytes.
func decodeTallied(b []byte, among map[string]*comparison) (found tallies, problem string, err error) {
	if len(b) < sha256.Size {
		return nil, "", errNotKept
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if is := sha256.Sum256(b); !bytes.Equal(is[:], sum) {
		return nil, "", errNotKept
	}
	k, found := &kepts{b: b}, tallies{}
	problem = string(k.take(k.number()))
	for n := k.number(); n > 0 && k.err == nil; n-- {
		t := &tallied{index: string(k.take(k.number())), documents: k.number(), filtered: k.number(), failed: k.tally(), unsent: map[string]int64{}}
		for n := k.number(); n > 0 && k.err == nil; n-- {
			reason := string(k.take(k.number()))
			t.unsent[reason] = k.number()
		}
		t.table = newTable()
		for n := k.number(); n > 0 && k.err == nil; n-- {
			i := k.number()
			if x := k.tally(); i < buckets {
				t.table.buckets[int(i)] = &x
				t.table.all.merge(&x)
			} else {
				k.err = errNotKept
			}
		}
		if among[t.index] == nil {
			return nil, "", errNotKept
		}
		found[t.index] = t
	}
	if k.err != nil || len(k.b) > 0 {
		return nil, "", errNotKept
	}
	return found, problem, nil
}
