package rebuild

import (
	"math"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// storedNumber returns the writer of stored whole numbers.
func storedNumber(render renderNumber) renderStored {
	return func(dst []byte, v lucene.StoredValue) []byte {
		if v.Kind != lucene.StoredInt && v.Kind != lucene.StoredLong {
			return dst
		}
		return render(dst, v.Int)
	}
}

func storedFloat(dst []byte, v lucene.StoredValue) []byte {
	switch v.Kind {
	case lucene.StoredFloat:
		return appendFloat(dst, v.Float, 32)
	case lucene.StoredDouble:
		return appendFloat(dst, v.Float, 64)
	}
	return dst
}

// storedDigits appends a number that is stored as a string of digits.
func storedDigits(dst []byte, v lucene.StoredValue) []byte {
	n, err := strconv.ParseUint(string(v.Bytes), 10, 64)
	if err != nil || v.Kind != lucene.StoredString {
		return dst
	}
	return strconv.AppendUint(dst, n, 10)
}

func storedBoolean(dst []byte, v lucene.StoredValue) []byte {
	if v.Kind != lucene.StoredString {
		return dst
	}
	switch string(v.Bytes) {
	case "T":
		return append(dst, "true"...)
	case "F":
		return append(dst, "false"...)
	}
	return dst
}

// storedGeo appends a point that is stored as "latitude, longitude".
func storedGeo(dst []byte, v lucene.StoredValue) []byte {
	north, east, ok := strings.Cut(string(v.Bytes), ",")
	lat, err := strconv.ParseFloat(strings.TrimSpace(north), 64)
	lon, err2 := strconv.ParseFloat(strings.TrimSpace(east), 64)
	if !ok || err != nil || err2 != nil || v.Kind != lucene.StoredString || !finite(lat) || !finite(lon) {
		return dst
	}
	dst = appendDouble(append(dst, `{"lat":`...), lat)
	dst = appendDouble(append(dst, `,"lon":`...), lon)
	return append(dst, '}')
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// storedText8 appends text that is stored as a string or as its bytes.
func storedText8(dst []byte, v lucene.StoredValue) []byte {
	if v.Kind != lucene.StoredString && v.Kind != lucene.StoredBytes {
		return dst
	}
	return appendUTF8(dst, v.Bytes)
}

// storedTerm returns the writer of stored bytes.
func storedTerm(render renderBytes) renderStored {
	return func(dst []byte, v lucene.StoredValue) []byte {
		if v.Kind != lucene.StoredBytes {
			return dst
		}
		return render(dst, v.Bytes)
	}
}
