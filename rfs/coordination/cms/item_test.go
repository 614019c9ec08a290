package cms_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestIDsRoundTripForEveryLegalName(t *testing.T) {
	for _, tc := range []struct {
		id   cms.ItemID
		wire string
	}{
		{cms.ItemID{Index: "a"}, "YQ__0__0"},
		{cms.ItemID{Index: "a__b", Shard: 12, Cursor: 345}, "YV9fYg__12__345"},
		{cms.ItemID{Index: "_x", Shard: 1}, "X3g__1__0"},
		{cms.ItemID{Index: "aÿ"}, "YcO___0__0"}, // the encoding ends in "_"
		{cms.ItemID{Index: "shard_setup"}, "c2hhcmRfc2V0dXA__0__0"},
		{cms.ItemID{Index: "日本語", Cursor: 1<<63 - 1}, "5pel5pys6Kqe__0__9223372036854775807"},
	} {
		if got := tc.id.String(); got != tc.wire {
			t.Errorf("%+v: %s, want %s", tc.id, got, tc.wire)
		}
		if got, err := cms.ParseID(tc.wire); err != nil || got != tc.id {
			t.Errorf("%s: %+v, %v", tc.wire, got, err)
		}
	}
	long := cms.ItemID{Index: strings.Repeat("x", 255), Shard: 1 << 30, Cursor: 1<<63 - 1}
	if got, err := cms.ParseID(long.String()); err != nil || got != long || len(long.String()) > cms.MaxIDLength {
		t.Errorf("longest name: %v, %d bytes", err, len(long.String()))
	}
}

func TestWhatIsNoIDIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "shard_setup", "a", "a__0", "__0__0", "logs__0__0\n", "YQ__-1__0", "YQ__0__-1", "YQ__0__01", "YQ__+0__0",
		"YQ__0__9223372036854775808", "YQ__2147483648__0", "Y!__0__0", "/w__0__0", "YQ==__0__0", "logs-1__0__0",
		strings.Repeat("YWFh", 200) + "__0__0",
	} {
		if id, err := cms.ParseID(s); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%q gave %+v, %v", s, id, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"YQ__0__0", "YcO___0__0", "shard_setup", "YV9fYg__12__345"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer fuzzing.Bounded(t, len(s))()
		id, err := cms.ParseID(s)
		if err == nil && id.String() != s {
			t.Errorf("%q parsed to %+v, which is %q", s, id, id.String())
		}
	})
}

func TestForeignValuesInExponentReadAsZero(t *testing.T) {
	for in, want := range map[string]cms.Exponent{
		`3`: 3, `0`: 0, `-1`: 0, `2.5`: 0, `2.0`: 2, `"4"`: 0, `null`: 0, `1e30`: 0, `[]`: 0, `{}`: 0, `true`: 0,
	} {
		var it cms.Item
		if err := json.Unmarshal([]byte(`{"nextAcquisitionLeaseExponent":`+in+`}`), &it); err != nil || it.Exponent != want {
			t.Errorf("%s: %d, %v", in, it.Exponent, err)
		}
	}
}

func TestSeededItemIsTheWireDocumentOfTheContract(t *testing.T) {
	it := cms.NewItem("YQ__0__0", "w1", 0)
	it.IndexName = "a"
	b, err := json.Marshal(it)
	if want := `{"scriptVersion":"3.0","indexName":"a","creatorId":"w1","expiration":0,"nextAcquisitionLeaseExponent":0}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	var back cms.Item
	if err := json.Unmarshal([]byte(`{"completedAt":null,"leaseHolderId":null,"successor_items":null,"expiration":5}`), &back); err != nil || !back.Open() {
		t.Errorf("explicit nulls: %+v, %v", back, err)
	}
}
