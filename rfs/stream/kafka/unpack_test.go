package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/rawbatch"
)

// packedBatch returns a batch of records as it is in an answer; codec 0: as they are.
func packedBatch(offset int64, records []byte, stated int32, codec int16) []byte {
	b := kmsg.RecordBatch{FirstOffset: offset, Magic: 2, Attributes: codec, NumRecords: stated, Records: records}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	return raw
}

// former returns a message of a former format.
func former(offset int64, magic, attributes byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = append(b, 0, 0, 0, 14, 1, 2, 3, 4, magic, attributes)
	return append(b, 255, 255, 255, 255, 255, 255, 255, 255) // neither key nor value
}

// TestBatches_OfAnAnswer checks what is read of the headers of batches, and that what is cut off is left out.
func TestBatches_OfAnAnswer(t *testing.T) {
	records := rawbatch.Records(2, 0, "a")
	plain, packed := packedBatch(7, records, 2, 0), packedBatch(9, records, 3, 4)
	short := slices.Clone(plain)
	binary.BigEndian.PutUint32(short[8:], recordsAt-12-1)
	for _, c := range []struct {
		name string
		in   []byte
		want string // offset, records, packed, bytes of the records
	}{
		{"none", nil, "[]"},
		{"two", slices.Concat(plain, packed), fmt.Sprintf("[7 2 false %d 9 3 true %d]", len(records), len(records))},
		{"the second is cut off", slices.Concat(plain, packed[:len(packed)-1]), fmt.Sprintf("[7 2 false %d]", len(records))},
		{"the second is cut off in its length", slices.Concat(plain, packed[:10]), fmt.Sprintf("[7 2 false %d]", len(records))},
		{"no records", packedBatch(7, nil, 0, 0), "[7 0 false 0]"},
		{"too short for a batch", short, "[]"},
		{"a length of nothing", make([]byte, 100), "[]"},
		{"a negative length", slices.Concat(make([]byte, 8), []byte{255, 255, 255, 0}, make([]byte, 100)), "[]"},
		{"former formats", slices.Concat(former(1, 0, 0), former(2, 1, 0), former(3, 1, 1)), "[1 1 false 0 2 1 false 0 3 0 true 0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := []string{}
			batches(c.in, func(b batch) { got = append(got, fmt.Sprint(b.offset, b.records, b.packed, len(b.body))) })
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// TestBatch_Damage checks that a batch which holds fewer records than it states is named.
func TestBatch_Damage(t *testing.T) {
	records := rawbatch.Records(3, 1, "a")
	for _, c := range []struct {
		name    string
		records []byte
		stated  int64
		says    string // "": it is whole
	}{
		{"as many as are stated", records, 3, ""},
		{"more", records, 2, ""},
		{"fewer", records, 4, "at offset 5 states 4 messages, and 3 can be read"},
		{"the last is cut off", records[:len(records)-1], 3, "at offset 5 states 3 messages, and 2 can be read"},
		{"none is stated", nil, 0, ""},
		{"none is there", nil, 1, "at offset 5 states 1 messages, and 0 can be read"},
		{"a former format", nil, -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := batch{offset: 5, records: c.stated}.damage(c.records)
			if (err != nil) != (c.says != "") || err != nil && (!errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestWithoutHeader_OfAnAnswer checks that tagged fields, which later brokers send, are passed over.
func TestWithoutHeader_OfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int16
		in      string
		want    string
		ok      bool
	}{
		{"before tagged fields", 11, "body", "body", true},
		{"no fields", 12, "\x00body", "body", true},
		{"two fields", 13, "\x02\x05\x01x\x06\x03yyybody", "body", true},
		{"an empty field that ends it", 12, "\x01\x05\x00", "", true},
		{"nothing", 12, "", "", false},
		{"no tag", 12, "\x01", "", false},
		{"no length", 12, "\x01\x05", "", false},
		{"a field that is longer than the answer", 12, "\x01\x05\x03xx", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := withoutHeader([]byte(c.in), c.version); ok != c.ok || ok && string(got) != c.want {
				t.Errorf("%q, %v", got, ok)
			}
		})
	}
}

// unpacking returns an unpacker whose codec returns what unpacked has for it.
func unpacking(t *testing.T, most int64, unpacked map[string][]byte) *unpacker {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	u := &unpacker{Decompressor: table(unpacked), most: most, shared: newUnfolding(1 << 20), ctx: ctx, partition: 3}
	u.refuse = func(err error) error { return fmt.Errorf("refused: %w", err) }
	return u
}

type table map[string][]byte

func (t table) Decompress(packed []byte, _ kgo.CompressionCodecType) ([]byte, error) {
	if out, ok := t[string(packed)]; ok {
		return out, nil
	}
	return nil, errors.New("damaged")
}

// fetched returns an answer for partition 3 of version 11.
func fetched(batches ...[]byte) []byte {
	r := kmsg.NewPtrFetchResponse()
	r.SetVersion(11)
	topic := kmsg.NewFetchResponseTopic()
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.RecordBatches = 3, slices.Concat(batches...)
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	return r.AppendTo(nil)
}

// held returns the bytes that an unpacker holds of what all partitions share.
func heldBy(u *unpacker) int64 {
	n := int64(0)
	for try := u.shared.most; try > 0; try /= 2 {
		for n+try <= u.shared.most {
			s, ok := u.shared.Try(n + try)
			if !ok {
				break
			}
			s.Release()
			n += try
		}
	}
	return u.shared.most - n
}

// TestUnpacker_AnswersAreHeldUntilTheNext checks what an answer takes of the memory that all partitions share.
func TestUnpacker_AnswersAreHeldUntilTheNext(t *testing.T) {
	records := rawbatch.Records(3, 2, "abc")
	plain := fetched(packedBatch(0, records, 3, 0))
	for _, c := range []struct {
		name   string
		answer []byte
		want   int64
	}{
		{"batches as they are", plain, int64(len(plain)) + 3*recordCost + 6*headerCost},
		{"packed batches, whose messages count when they are unpacked", fetched(packedBatch(0, records, 3, 4)), int64(len(plain))},
		{"messages of a former format", fetched(former(1, 1, 0), former(2, 1, 0)), int64(len(fetched(former(1, 1, 0), former(2, 1, 0)))) + 2*recordCost},
		{"no messages", fetched(), int64(len(fetched()))},
		{"what cannot be read, which the client refuses", []byte("x"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := unpacking(t, 1<<20, nil)
			for range 2 { // the second time in place of the first
				if err := u.answer(c.answer, 11); err != nil {
					t.Fatal(err)
				}
				if got := heldBy(u); got != c.want {
					t.Errorf("%d bytes are held, want %d", got, c.want)
				}
			}
			u.free()
			if got := heldBy(u); got != 0 {
				t.Errorf("%d bytes are held at the end", got)
			}
		})
	}
}

// TestUnpacker_RefusesAnswers checks that an answer which cannot be held, or is damaged, ends the process by name.
func TestUnpacker_RefusesAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []byte
		says   []string
		is     error
	}{
		{"a batch that takes too much", fetched(packedBatch(5, rawbatch.Records(1, 0, ""), 1, 0), packedBatch(6, rawbatch.Records(300_000, 0, ""), 300_000, 0)),
			[]string{"partition 3", "at offset 6, of 300000 messages", "--max-batch-size", "--session-name"}, fault.ErrConfig},
		{"a batch that lacks messages", fetched(packedBatch(5, rawbatch.Records(2, 0, ""), 3, 0), packedBatch(8, rawbatch.Records(2, 0, ""), 4, 0)),
			[]string{"partition 3", "at offset 5 states 3 messages, and 2 can be read"}, fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := unpacking(t, 1<<20, nil)
			err := u.answer(c.answer, 11)
			for _, part := range append(c.says, "refused: ") {
				if !errors.Is(err, c.is) || !strings.Contains(err.Error(), part) {
					t.Errorf("%v; want %q", err, part)
				}
			}
			if got := heldBy(u); got != 0 {
				t.Errorf("%d bytes are held", got)
			}
		})
	}
}

// TestUnpacker_WaitsForOthers checks that an answer waits while others hold what it needs, and ends with the partition.
func TestUnpacker_WaitsForOthers(t *testing.T) {
	u := unpacking(t, 1<<20, map[string][]byte{"a": rawbatch.Records(1, 0, "")})
	all, ok := u.shared.Try(u.shared.most)
	if !ok {
		t.Fatal("it is not free")
	}
	ctx, cancel := context.WithCancel(t.Context())
	u.ctx = ctx
	done := make(chan error)
	go func() { done <- u.answer(fetched(), 11) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("an answer: %v", err)
	}
	if _, err := u.Decompress([]byte("a"), kgo.CodecZstd); !errors.Is(err, context.Canceled) {
		t.Errorf("a batch: %v", err)
	}
	all.Release()
	u.shared.turn <- struct{}{} // another partition unpacks
	if _, err := u.Decompress([]byte("a"), kgo.CodecZstd); !errors.Is(err, context.Canceled) {
		t.Errorf("a batch whose turn does not come: %v", err)
	}
}

// TestUnpacker_UnpacksWhatFits checks which batches of an answer the client gets: the others are asked for again.
func TestUnpacker_UnpacksWhatFits(t *testing.T) {
	one := rawbatch.Records(10, 0, strings.Repeat("v", 90))
	whole := map[string][]byte{"a": one, "b": one, "c": one, "empty": {}}
	for _, c := range []struct {
		name   string
		most   int64
		stated map[string]int32 // by what is packed
		free   int64            // bytes that others leave; 0: all
		packed []string
		want   string // bytes of each, or its error
	}{
		{"all", 1 << 20, nil, 0, []string{"a", "b", "c"}, fmt.Sprint(len(one), " ", len(one), " ", len(one))},
		{"until they are enough", int64(2*len(one)) - 1, nil, 0, []string{"a", "b", "c"}, fmt.Sprint(len(one), " ", len(one), " enough")},
		{"the first, however long", 1, nil, 0, []string{"a", "b"}, fmt.Sprint(len(one), " enough")},
		{"empty ones count, too", 2, nil, 0, []string{"empty", "empty", "empty"}, "0 0 enough"},
		{"until nothing is free", 1 << 20, map[string]int32{"a": 10, "b": 10}, int64(len(one)) + 11*recordCost, []string{"a", "b"}, fmt.Sprint(len(one), " enough")},
		{"what is damaged", 1 << 20, nil, 0, []string{"d"}, "damaged"},
		{"a first one that lacks messages", 1 << 20, map[string]int32{"a": 11}, 0, []string{"a"}, "refused"},
		{"a later one that lacks messages waits for the next answer", 1 << 20, map[string]int32{"b": 11}, 0, []string{"a", "b"}, fmt.Sprint(len(one), " enough")},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := unpacking(t, c.most, whole)
			var all [][]byte
			for packed, stated := range c.stated {
				all = append(all, packedBatch(0, []byte(packed), stated, 4))
			}
			if err := u.answer(fetched(all...), 11); err != nil {
				t.Fatal(err)
			}
			u.free()
			if c.free > 0 {
				s, ok := u.shared.Try(u.shared.most - c.free)
				if !ok {
					t.Fatal("it is not free")
				}
				defer s.Release()
			}
			var got []string
			for _, packed := range c.packed {
				out, err := u.Decompress([]byte(packed), kgo.CodecZstd)
				switch {
				case errors.Is(err, errUnpacked):
					got = append(got, "enough")
				case err != nil:
					text, _, _ := strings.Cut(err.Error(), ":")
					got = append(got, text)
				default:
					got = append(got, fmt.Sprint(len(out)))
				}
			}
			if is := strings.Join(got, " "); is != c.want {
				t.Errorf("%s, want %s", is, c.want)
			}
			if len(u.shared.turn) != 0 {
				t.Error("the turn is still taken")
			}
			if u.free(); c.free == 0 && heldBy(u) != 0 {
				t.Errorf("%d bytes are held at the end", heldBy(u))
			}
		})
	}
}

// TestUnpacker_FirstBatchThatTakesTooMuch checks that it ends the process by name, and that one as it is needs no memory of its own.
func TestUnpacker_FirstBatchThatTakesTooMuch(t *testing.T) {
	u := unpacking(t, 1<<20, map[string][]byte{"a": rawbatch.Records(1_200_000, 0, "")})
	for name, c := range map[string]struct {
		answer []byte
		says   string
	}{
		"with a header":      {fetched(packedBatch(6, []byte("a"), 1_200_000, 4)), "the batch of messages at offset 6, of 1200000 messages, takes"},
		"of a former format": {fetched(), "the batch of messages takes"},
	} {
		if err := u.answer(c.answer, 11); err != nil {
			t.Fatal(err)
		}
		if _, err := u.Decompress([]byte("a"), kgo.CodecZstd); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	u.free()
	if out, err := u.Decompress([]byte("as it is"), kgo.CodecNone); err != nil || string(out) != "as it is" || heldBy(u) != 0 {
		t.Errorf("%q, %v", out, err)
	}
}

// TestUnpacker_BatchesThatLookTheSame has a producer send two batches whose packed bytes are the same, or have the same CRC, which
// anybody can make. One of them states few messages; the client makes what the other states.
func TestUnpacker_BatchesThatLookTheSame(t *testing.T) {
	const many = 300_000
	of := map[uint32]string{}
	var long, short string
	for n := 0; long == ""; n++ {
		b := sha256.Sum256(binary.AppendUvarint(nil, uint64(n)))
		sum := crc32.ChecksumIEEE(b[:8])
		long, short = of[sum], string(b[:8])
		of[sum] = short
	}
	for _, c := range []struct {
		name    string
		batches [][]byte
	}{
		{"the same bytes", [][]byte{packedBatch(6, []byte(long), many, 4), packedBatch(7, []byte(long), 1, 4)}},
		{"the same bytes, the other first", [][]byte{packedBatch(6, []byte(long), 1, 4), packedBatch(7, []byte(long), many, 4)}},
		{"the same checksum", [][]byte{packedBatch(6, []byte(long), many, 4), packedBatch(7, []byte(short), 1, 4)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := unpacking(t, 1<<20, map[string][]byte{long: rawbatch.Records(many, 0, ""), short: rawbatch.Records(1, 0, "")})
			if err := u.answer(fetched(c.batches...), 11); err != nil {
				t.Fatal(err)
			}
			if out, err := u.Decompress([]byte(long), kgo.CodecZstd); !errors.Is(err, fault.ErrConfig) {
				t.Errorf("%d bytes, %v: the client would make %d messages of them", len(out), err, many)
			}
		})
	}
}
