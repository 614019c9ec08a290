package kafka

import (
	"encoding/binary"
	"math"
)

// Memory of the client for messages, in bytes. The values are upper estimates, so that limits hold.
const (
	recordCost = 256 // of a record without key, value and headers
	headerCost = 48
	// shortest is the shortest message of the formats before record batches, in bytes.
	shortest = 26
)

// batch is a batch of an answer, with the properties in its header.
type batch struct {
	offset  int64 // of the first record
	records int64
	packed  bool   // compressed
	body    []byte // the records as received
}

// Layout of a record batch (magic 2): base offset 8, length 4, leader epoch 4, magic 1, CRC 4, attributes 2, last offset delta 4,
// first and last timestamp 8 each, producer id 8, producer epoch 2, first sequence 4, number of records 4, records. Messages of
// earlier formats (magic 0 and 1): offset 8, size 4, CRC 4, magic 1, attributes 1, in format 1 timestamp 8, key and value, each with
// its length in 4 bytes; a compressed message contains further messages in its value. Integers are big-endian.
const (
	magicAt      = 16
	attributesAt = 21
	numberAt     = 57
	recordsAt    = 61
)

// batches calls each with the batches of an answer for one partition. It skips a truncated batch at the end.
func batches(in []byte, each func(b batch)) {
	for len(in) > magicAt+1 {
		length := int64(int32(binary.BigEndian.Uint32(in[8:]))) + 12
		if length <= magicAt+1 || length > int64(len(in)) {
			return
		}
		one := in[:length]
		in = in[length:]
		b := batch{offset: int64(binary.BigEndian.Uint64(one))}
		if one[magicAt] < 2 {
			b.packed = one[magicAt+1]&7 != 0
			if b.records = 1; b.packed { // the number is known only after decompression
				b.records = 0
			}
			each(b)
			continue
		}
		if length < recordsAt {
			return
		}
		b.packed = one[attributesAt+1]&7 != 0
		b.records = int64(int32(binary.BigEndian.Uint32(one[numberAt:])))
		b.body = one[recordsAt:]
		each(b)
	}
}

// cost returns the memory that the client allocates for the records of a batch, in bytes, in addition to records itself. stated is the
// number of records in the header of the batch; -1: unknown, as for messages of earlier formats.
func cost(records []byte, stated int64) int64 {
	if stated < 0 {
		return int64(len(records))/shortest*recordCost + recordCost
	}
	_, headers := walk(records, stated)
	return min(stated, int64(len(records)))*recordCost + headers*headerCost // the client allocates all stated records first
}

// walk returns the number of stated records that can be parsed, and the number of their headers. The client allocates as many
// headers as a record states, if at least as many bytes follow.
func walk(in []byte, stated int64) (n, headers int64) {
	for ; n < stated; n++ {
		length, used := binary.Varint(in)
		if used <= 0 || length <= 0 || length > int64(len(in)-used) {
			return n, headers
		}
		record := in[used : used+int(length)]
		in = in[used+int(length):]
		headers += headersOf(record)
	}
	return n, headers
}

// headersOf returns the number of headers that a record states. The layout is attributes 1, time and offset as varints, key and value
// with their lengths first, number of headers, headers.
func headersOf(in []byte) int64 {
	in = in[1:]
	number := func() int64 {
		n, used := binary.Varint(in)
		if used <= 0 {
			in = nil
			return math.MinInt64
		}
		in = in[used:]
		return n
	}
	number()
	number()
	for range 2 { // key and value; -1 is none
		n := number()
		if n > int64(len(in)) {
			return 0
		}
		in = in[max(n, 0):]
	}
	return min(max(number(), 0), int64(len(in)))
}

// uvarint returns the number at the start of in, and the rest.
func uvarint(in []byte) (n uint64, rest []byte, ok bool) {
	n, used := binary.Uvarint(in)
	if used <= 0 {
		return 0, nil, false
	}
	return n, in[used:], true
}
