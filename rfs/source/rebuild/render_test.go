package rebuild

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAppendFloat(t *testing.T) {
	for want, v := range map[string]float64{
		"0.0": 0, "-0.0": math.Copysign(0, -1), "1.0": 1, "0.001": 0.001, "9.999E-4": 0.0009999, "1.0E7": 1e7, "9999999.0": 9999999,
		"1.23456789125E8": 123456789.125, "-1.0E300": -1e300, `"NaN"`: math.NaN(), `"-Infinity"`: math.Inf(-1), "4.9E-324": 5e-324,
	} {
		if got := string(appendFloat(nil, v, 64)); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for want, v := range map[string]float64{"0.1": float64(float32(0.1)), "1.6777216E7": 1 << 24, "0.099975586": 0.0999755859375} {
		if got := string(appendFloat(nil, v, 32)); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestSortableHalf(t *testing.T) {
	for bits, want := range map[int64]float64{0: 0, 0x3C00: 1, 0x7BFF: 65504, 1: math.Ldexp(1, -24), int64(int16(-0x4001)): -2, 0x7C00: math.Inf(1)} {
		if got := sortableHalf(bits); got != want {
			t.Errorf("%x: %v, want %v", bits, got, want)
		}
	}
}

func TestDateFormat(t *testing.T) {
	moment := time.Date(2023, 11, 4, 2, 3, 20, 120_000_000, time.UTC)
	for format, want := range map[string]string{
		"": `"2023-11-04T02:03:20.120Z"`, "strict_date_optional_time||epoch_millis": `"2023-11-04T02:03:20.120Z"`, "epoch_millis": `"1699063400120"`,
		"epoch_second": `"1699063400.12"`, "yyyy/MM/dd HH:mm:ss.SS": `"2023/11/04 02:03:20.12"`, "d.M.yyyy": `"4.11.2023"`,
		"yyyy-MM-dd'T'HH''XXX": `"2023-11-04T02'Z"`, "basic_date": `"20231104"`, "EEE, d MMM": "", "week_date": "",
	} {
		f := parseDateFormat(format)
		if (f == nil) != (want == "") || f != nil && string(f(nil, moment)) != want {
			t.Errorf("%q: want %s", format, want)
		}
	}
	if got := string(isoDate(nil, time.Unix(253402300800, 1))); got != `"+10000-01-01T00:00:00.000000001Z"` {
		t.Errorf("year 10000: %s", got)
	}
}

// TestScaledNumbers compares numbers with those of a JVM, which computed them as the mapper of Elasticsearch does: value, factor,
// number.
func TestScaledNumbers(t *testing.T) {
	raw, err := os.ReadFile("testdata/scaled.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(raw)) {
		var value int64
		var factor, want float64
		if _, err := fmt.Sscan(line, &value, &factor, &want); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got := unscaled(value, factor); got != want {
			t.Errorf("%d / %v: %v, want %v", value, factor, got, want)
		}
		count++
	}
	if count != 400 {
		t.Errorf("%d numbers", count)
	}
}
